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

void require_increasing(const std::vector<int64_t>& milestones, const char* schedule) {
  int64_t before = 0;
  for (const int64_t milestone : milestones) {
    require(milestone > before, schedule, "a milestone", double(milestone),
            "above 0 and above the one before it");
    before = milestone;
  }
}

// How many milestones are at most `step`.
int64_t passed(const std::vector<int64_t>& milestones, int64_t step) {
  return std::ranges::upper_bound(milestones, step) - milestones.begin();
}

// How far a step is on a way of `steps`, in 0..1.
double part_of(int64_t step, int64_t steps) {
  return double(std::clamp<int64_t>(step, 0, steps)) / double(steps);
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

LrSchedule multi_step_lr(const MultiStepLrOptions& options) {
  require_rate(options.lr, "multi_step_lr", "lr");
  require_increasing(options.milestones, "multi_step_lr");
  require_rate(options.factor, "multi_step_lr", "factor");
  return [options](int64_t step) {
    return options.lr * std::pow(options.factor, double(passed(options.milestones, step)));
  };
}

LrSchedule exponential_lr(const ExponentialLrOptions& options) {
  require_rate(options.lr, "exponential_lr", "lr");
  require_positive(options.factor, "exponential_lr", "factor");
  return [options](int64_t step) { return options.lr * std::pow(options.factor, double(step)); };
}

LrSchedule linear_lr(const LinearLrOptions& options) {
  require_rate(options.lr, "linear_lr", "lr");
  require_positive(double(options.steps), "linear_lr", "steps");
  require_rate(options.start_factor, "linear_lr", "start_factor");
  require_rate(options.end_factor, "linear_lr", "end_factor");
  return [options](int64_t step) {
    const double t = part_of(step, options.steps);
    return options.lr * (options.start_factor * (1 - t) + options.end_factor * t);
  };
}

LrSchedule polynomial_lr(const PolynomialLrOptions& options) {
  require_rate(options.lr, "polynomial_lr", "lr");
  require_rate(options.final_lr, "polynomial_lr", "final_lr");
  require_positive(double(options.steps), "polynomial_lr", "steps");
  require_positive(options.power, "polynomial_lr", "power");
  return [options](int64_t step) {
    const double left = std::pow(1 - part_of(step, options.steps), options.power);
    return options.final_lr + (options.lr - options.final_lr) * left;
  };
}

LrSchedule cosine_restarts_lr(const CosineRestartsLrOptions& options) {
  require_rate(options.lr, "cosine_restarts_lr", "lr");
  require_rate(options.final_lr, "cosine_restarts_lr", "final_lr");
  require_positive(double(options.period), "cosine_restarts_lr", "period");
  require_positive(double(options.period_factor), "cosine_restarts_lr", "period_factor");
  return [options](int64_t step) {
    int64_t period = options.period;
    if (options.period_factor == 1) step %= period;
    for (; step >= period; period *= options.period_factor) step -= period;
    return half_cosine(options.lr, options.final_lr, double(step) / double(period));
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

LrSchedule sequence_lr(const std::vector<LrSchedule>& schedules,
                       const std::vector<int64_t>& milestones) {
  if (schedules.size() != milestones.size() + 1) {
    throw Error(fmt::format("[sequence_lr] {} schedules want one milestone fewer, got {}",
                            schedules.size(), milestones.size()));
  }
  require_increasing(milestones, "sequence_lr");
  for (size_t i = 0; i < schedules.size(); ++i) {
    if (!schedules[i]) throw Error(fmt::format("[sequence_lr] schedule {} is empty", i));
  }
  return [=](int64_t step) {
    const auto i = size_t(passed(milestones, step));
    return schedules[i](i == 0 ? step : step - milestones[i - 1]);
  };
}

}  // namespace adret
