// The scale on the device, and the kernel between backward and step.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/loss_scale.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace adret {
namespace {

bool is_power_of_two(double value) {
  int exponent = 0;
  return value > 0 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

bool allows(const LossScaleOptions& options, double scale) {
  return is_power_of_two(scale) && options.lowest <= scale && scale <= options.largest;
}

const LossScaleOptions& checked(const LossScaleOptions& options) {
  // f32 holds powers of two between these.
  const bool in_f32 = options.lowest >= 0x1p-100 && options.largest <= 0x1p100;
  if (!in_f32 || !is_power_of_two(options.lowest) || !is_power_of_two(options.largest) ||
      !allows(options, options.initial)) {
    throw Error(fmt::format(
        "[LossScaler] wants powers of two with lowest <= initial <= largest within 2^-100..2^100, "
        "got {}, {} and {}",
        options.lowest, options.initial, options.largest));
  }
  if (options.growth_interval < 1) {
    throw Error(fmt::format("[LossScaler] growth_interval is {}; it must be at least 1",
                            options.growth_interval));
  }
  return options;
}

}  // namespace

LossScaler::LossScaler(Optimizer& optimizer, const LossScaleOptions& options)
    : optimizer_(optimizer), options_(checked(options)) {
  const Device device = optimizer.arena().device();
  scale_ = Tensor::full({}, options.initial, {.device = device});
  counts_ = Tensor::zeros({2}, {.dtype = DType::i64, .device = device});
}

Tensor LossScaler::scale(const Tensor& loss) const {
  const DType wide = loss.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor scaled = loss.to(wide) * scale_.to(wide);
  if (scaled.requires_grad()) optimizer_.arena().await_unscale(true);
  return scaled;
}

void LossScaler::unscale() {
  const FunctionScope scope("unscale");
  ParameterArena& arena = optimizer_.arena();
  if (arena.decided_on_device()) {
    throw Error(
        "[LossScaler] unscale() was called a second time before step(); call it once for a step, "
        "behind its last backward");
  }
  const auto has_gradient = [](const auto& parameter) { return parameter->value.grad().defined(); };
  if (!arena.awaits_unscale() && std::ranges::any_of(arena.parameters(), has_gradient)) {
    throw Error(
        "[LossScaler] unscale() was called for gradients of a loss that was not scaled; call "
        "scale(loss).backward() before, behind zero_grad()");
  }
  arena.await_unscale(false);
  if (StepTrace* trace = StepTrace::current()) {
    trace->after_replay([&arena] { arena.await_unscale(false); });
  }
  if (!arena.collect_to_decide()) return;
  run(kernels::UpdateLossScale{.grads = arena.gradients(),
                               .segments = arena.segments(),
                               .scale = scale_,
                               .counts = counts_,
                               .lowest = options_.lowest,
                               .largest = options_.largest,
                               .growth_interval = options_.growth_interval});
  scale_.bump_version();
}

LossScaleState LossScaler::state() const {
  const std::vector<int64_t> counts = counts_.to_vector<int64_t>();
  return {.scale = double(scale_.item()), .finite_steps = counts[0], .skipped_steps = counts[1]};
}

void LossScaler::load_state(const LossScaleState& state) {
  if (!allows(options_, state.scale) || state.finite_steps < 0 || state.skipped_steps < 0) {
    throw Error(fmt::format(
        "[LossScaler] the state has the scale {} after {} finite and {} skipped steps; wanted a "
        "power of two in {}..{} and counts not negative",
        state.scale, state.finite_steps, state.skipped_steps, options_.lowest, options_.largest));
  }
  const float scale = float(state.scale);
  const std::array<int64_t, 2> counts{state.finite_steps, state.skipped_steps};
  upload(scale_, &scale);
  upload(counts_, counts.data());
}

}  // namespace adret
