// Learning-rate schedules: the rate of step k (0, 1, ...) depends on k alone, so that a resumed run
// goes on exactly. Use: optimizer.set_lr(schedule(step)).
#pragma once

#include <cstdint>
#include <functional>

namespace adret {

using LrSchedule = std::function<double(int64_t step)>;

// Each throws Error for options out of range. Behind the last step the rate stays as it was there.

LrSchedule constant_lr(double lr);

// lr * factor^floor(k / every).
struct StepLrOptions {
  double lr = 0;      // must be given
  int64_t every = 0;  // must be given
  double factor = 0.1;
};
LrSchedule step_lr(const StepLrOptions& options);

// For the first `warmup_steps` steps lr * (k + 1) / (warmup_steps + 1) (Goyal et al. 2017), then
// final_lr + (lr - final_lr) * (1 + cos(pi * t)) / 2 with t from 0 to 1 (Loshchilov and Hutter
// 2017).
struct CosineLrOptions {
  double lr = 0;      // must be given
  int64_t steps = 0;  // of the whole run; must be given
  int64_t warmup_steps = 0;
  double final_lr = 0;
};
LrSchedule cosine_lr(const CosineLrOptions& options);

// Half cosines from max_lr / initial_divisor up to max_lr and down to max_lr / initial_divisor /
// final_divisor (Smith 2018), at the steps of PyTorch's OneCycleLR: the top is at step
// warmup * steps - 1, the end at steps - 1.
struct OneCycleLrOptions {
  double max_lr = 0;    // must be given
  int64_t steps = 0;    // of the whole run; must be given
  double warmup = 0.3;  // part of the steps, in 0..1
  double initial_divisor = 25;
  double final_divisor = 1e4;
};
LrSchedule one_cycle_lr(const OneCycleLrOptions& options);

}  // namespace adret
