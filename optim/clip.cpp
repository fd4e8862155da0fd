// The norm over arenas, and what is said of one that is not finite.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/optim/clip.h>
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <string>

namespace adret {
namespace {

// The norm of all: one kernel an arena, and three small ones where there are several.
Tensor norm_of(const std::vector<Optimizer*>& optimizers) {
  const NoGrad no_grad;
  const TensorOptions f64{.dtype = DType::f64, .device = optimizers[0]->arena().device()};
  const auto count = int64_t(optimizers.size());
  const Tensor norms = Tensor::empty({count}, f64);
  for (int64_t i = 0; i < count; ++i) {
    const ParameterArena& arena = optimizers[size_t(i)]->arena();
    run(kernels::GradientNorm{.grads = arena.gradients(),
                              .segments = arena.segments(),
                              .norm = norms.alias({}, size_t(i) * sizeof(double))});
  }
  return count == 1 ? norms.alias({}) : sqrt(sum(square(norms)));
}

// Of a norm: which gradient is not, or that their squares overflow.
std::string why_not_finite(const std::vector<Optimizer*>& optimizers) {
  const NoGrad no_grad;
  double largest = 0;
  std::string name;
  for (const Optimizer* optimizer : optimizers) {
    const ParameterArena& arena = optimizer->arena();
    for (size_t i = 0; i < arena.parameters().size(); ++i) {
      const Parameter& parameter = *arena.parameters()[i];
      if (!arena.segment(i).active) continue;
      const std::string what =
          fmt::format("\"{}\" {}", parameter.name, to_string(parameter.value.shape()));
      const Tensor gradient = parameter.value.grad().to(DType::f64).to(Device::cpu());
      for (const double element : gradient.to_vector<double>()) {
        if (!std::isfinite(element)) {
          return fmt::format(
              "the gradient of {} is not finite; skip this step, or look for the first operation "
              "that gives such values",
              what);
        }
        if (std::abs(element) <= largest) continue;
        largest = std::abs(element);
        name = what;
      }
    }
  }
  return fmt::format(
      "every gradient is finite, up to {:.6g} in {}, but the sum of their squares is too large for "
      "f64; make the loss smaller, or limit the elements with clip_value before",
      largest, name);
}

}  // namespace

Tensor clip_norm(const std::vector<Optimizer*>& optimizers, double max_norm,
                 const ClipNormOptions& options) {
  check_optimizers("clip_norm", optimizers);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (max_norm != infinity) check_range("clip_norm", "max_norm", max_norm, 0);
  std::vector<Optimizer*> with_gradients;
  for (Optimizer* optimizer : optimizers) {
    if (optimizer->arena().collect()) with_gradients.push_back(optimizer);
  }
  if (with_gradients.empty()) {
    return Tensor::zeros({}, {.dtype = DType::f64, .device = optimizers[0]->arena().device()});
  }
  const Tensor total = norm_of(with_gradients);
  for (const Optimizer* optimizer : with_gradients) {
    if (max_norm == infinity) break;  // the norm alone
    const ParameterArena& arena = optimizer->arena();
    run(kernels::ClipByNorm{.grads = arena.gradients(),
                            .segments = arena.segments(),
                            .norm = total,
                            .max_norm = max_norm});
    arena.bump_gradients();
  }
  if (options.error_if_nonfinite && !std::isfinite(total.item<double>())) {
    throw Error(fmt::format(
        "[clip_norm] the norm of the gradients is {}, so they cannot be scaled and are untouched: "
        "{}",
        total.item<double>(), why_not_finite(with_gradients)));
  }
  return total;
}

}  // namespace adret
