// Learning-rate schedules: the rate of step k (0, 1, ...) depends on k alone, so that a resumed run
// goes on exactly. Use: optimizer.set_lr(schedule(step)).
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace adret {

using LrSchedule = std::function<double(int64_t step)>;

// Each throws Error for options out of range. Behind the last step the rate stays as it was there.

LrSchedule constant_lr(double lr);

// lr * factor^floor(k / every).
struct StepLrOptions {
  double lr = NAN;    // must be given
  int64_t every = 0;  // must be given
  double factor = 0.1;
};
LrSchedule step_lr(const StepLrOptions& options);

// lr * factor^(how many of the milestones are at most k).
struct MultiStepLrOptions {
  double lr = NAN;                       // must be given
  std::vector<int64_t> milestones = {};  // steps of the run, increasing
  double factor = 0.1;
};
LrSchedule multi_step_lr(const MultiStepLrOptions& options);

// lr * factor^k.
struct ExponentialLrOptions {
  double lr = NAN;    // must be given
  double factor = 0;  // must be given; of each step
};
LrSchedule exponential_lr(const ExponentialLrOptions& options);

// lr times a factor that goes from start_factor at step 0 to end_factor at step `steps` in a line:
// a warm-up, in a sequence before another schedule.
struct LinearLrOptions {
  double lr = NAN;    // must be given
  int64_t steps = 0;  // must be given
  double start_factor = 1.0 / 3, end_factor = 1;
};
LrSchedule linear_lr(const LinearLrOptions& options);

// final_lr + (lr - final_lr) * (1 - k / steps)^power.
struct PolynomialLrOptions {
  double lr = NAN;    // must be given
  int64_t steps = 0;  // must be given
  double power = 1;   // above 0
  double final_lr = 0;
};
LrSchedule polynomial_lr(const PolynomialLrOptions& options);

// For the first `warmup_steps` steps lr * (k + 1) / (warmup_steps + 1) (Goyal et al. 2017), then
// final_lr + (lr - final_lr) * (1 + cos(pi * t)) / 2 with t from 0 to 1 (Loshchilov and Hutter
// 2017).
struct CosineLrOptions {
  double lr = NAN;    // must be given
  int64_t steps = 0;  // of the whole run; must be given
  int64_t warmup_steps = 0;
  double final_lr = 0;
};
LrSchedule cosine_lr(const CosineLrOptions& options);

// final_lr + (lr - final_lr) * (1 + cos(pi * t)) / 2 with t from 0 to 1 over a period, again and
// again, each period `period_factor` times as long as the one before (Loshchilov and Hutter 2017).
struct CosineRestartsLrOptions {
  double lr = NAN;            // must be given
  int64_t period = 0;         // the first, in steps; must be given
  int64_t period_factor = 1;  // 1 or more
  double final_lr = 0;
};
LrSchedule cosine_restarts_lr(const CosineRestartsLrOptions& options);

// Half cosines from max_lr / initial_divisor up to max_lr and down to max_lr / initial_divisor /
// final_divisor (Smith 2018), at the steps of PyTorch's OneCycleLR: the top is at step
// warmup * steps - 1, the end at steps - 1.
struct OneCycleLrOptions {
  double max_lr = NAN;  // must be given
  int64_t steps = 0;    // of the whole run; must be given
  double warmup = 0.3;  // part of the steps, in 0..1
  double initial_divisor = 25;
  double final_divisor = 1e4;
};
LrSchedule one_cycle_lr(const OneCycleLrOptions& options);

// One schedule after the other: schedule i + 1 from step milestones[i] on, where it begins with its
// own step 0.
//   sequence_lr({linear_lr({.lr = 0.1, .steps = 500}),
//                polynomial_lr({.lr = 0.1, .steps = 9500})}, {500})
// Throws Error unless the milestones increase from above 0, one fewer than schedules.
LrSchedule sequence_lr(const std::vector<LrSchedule>& schedules,
                       const std::vector<int64_t>& milestones);

}  // namespace adret
