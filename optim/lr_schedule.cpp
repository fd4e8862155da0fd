// Learning-rate schedules.
#include <adret/core/error.h>
#include <adret/optim/lr_schedule.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace adret {
namespace {

void require(bool holds, const char* schedule, const char* what, double value, const char* wanted) {
  if (holds) return;
  throw Error(fmt::format("[{}] {} is {}; it must be {}", schedule, what, value, wanted));
}

void require_rate(double lr, const char* schedule, const char* what) {
  require(std::isfinite(lr) && lr >= 0, schedule, what, lr, "finite and not negative");
}

void require_positive(double value, const char* schedule, const char* what) {
  require(std::isfinite(value) && value > 0, schedule, what, value, "above 0");
}

// From `from` to `to` along half a cosine as t goes from 0 to 1.
double half_cosine(double from, double to, double t) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(t, 0.0, 1.0))) / 2;
}

}  // namespace

LrSchedule constant_lr(double lr) {
  require_rate(lr, "constant_lr", "lr");
  return [lr](int64_t) { return lr; };
}

LrSchedule step_lr(const StepLrOptions& options) {
  require_rate(options.lr, "step_lr", "lr");
  require_positive(double(options.every), "step_lr", "every");
  require_rate(options.factor, "step_lr", "factor");
  return [options](int64_t step) {
    return options.lr * std::pow(options.factor, double(step / options.every));
  };
}

LrSchedule cosine_lr(const CosineLrOptions& options) {
  require_rate(options.lr, "cosine_lr", "lr");
  require_rate(options.final_lr, "cosine_lr", "final_lr");
  require_positive(double(options.steps), "cosine_lr", "steps");
  require(options.warmup_steps >= 0 && options.warmup_steps < options.steps, "cosine_lr",
          "warmup_steps", double(options.warmup_steps), "at least 0 and below steps");
  return [options](int64_t step) {
    const auto warmup = double(options.warmup_steps);
    if (step < options.warmup_steps) return options.lr * double(step + 1) / (warmup + 1);
    const double t = (double(step) - warmup) / (double(options.steps) - warmup);
    return half_cosine(options.lr, options.final_lr, t);
  };
}

LrSchedule one_cycle_lr(const OneCycleLrOptions& options) {
  require_rate(options.max_lr, "one_cycle_lr", "max_lr");
  require_positive(double(options.steps), "one_cycle_lr", "steps");
  require(options.warmup >= 0 && options.warmup <= 1, "one_cycle_lr", "warmup", options.warmup,
          "in 0..1");
  require_positive(options.initial_divisor, "one_cycle_lr", "initial_divisor");
  require_positive(options.final_divisor, "one_cycle_lr", "final_divisor");
  return [options](int64_t step) {
    const double initial = options.max_lr / options.initial_divisor;
    const double top = options.warmup * double(options.steps) - 1;
    const double end = double(options.steps - 1);
    if (double(step) < top) return half_cosine(initial, options.max_lr, double(step) / top);
    const double t = end > top ? (double(step) - top) / (end - top) : 0;
    return half_cosine(options.max_lr, initial / options.final_divisor, t);
  };
}

}  // namespace adret
