// Checks of labels and pairs, the reduction of losses, and those of pairs in one kernel.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret::loss {

void check_pair(const char* function, check::Argument a, check::Argument b) {
  check::alike(function, a, b);
  check::floating(function, a);
  if (a.tensor.shape() == b.tensor.shape()) return;
  check::refuse(function,
                fmt::format("{} is {}, {} {}; shapes must be equal, reshape one of them", a.name,
                            to_string(a.tensor.shape()), b.name, to_string(b.tensor.shape())));
}

void check_labels(const char* function, check::Argument scores, const Tensor& labels,
                  std::optional<int64_t> ignore_index) {
  const Tensor& x = scores.tensor;
  check::floating(function, scores);
  check::same_device(function, scores, {"labels", labels});
  check::integer(function, {"labels", labels});
  if (x.rank() == 0) check::refuse_shape(function, scores, "(..., C)");
  const Shape wanted = x.shape().without(x.rank() - 1);
  if (wanted != labels.shape()) {
    check::refuse(
        function,
        fmt::format("{} (..., C) are {}, labels {}; wanted one label a sample: {}", scores.name,
                    to_string(x.shape()), to_string(labels.shape()), to_string(wanted)));
  }
  const int64_t classes = x.size(-1);
  if (const auto wrong = check::first_outside(labels, classes, ignore_index)) {
    throw Error(fmt::format("[{}] label {} of sample {} is outside 0..{} ({} classes)", function,
                            wrong->index, wrong->place, classes - 1, classes));
  }
}

void check_class_weights(const char* function, check::Argument scores, const Tensor& weights) {
  const check::Argument argument{"class_weights", weights};
  check::same_device(function, scores, argument);
  check::shape(function, argument, {scores.tensor.size(-1)});
  check::dtype(function, argument, wide_dtype(scores.tensor));
  if (!weights.defined() || !weights.requires_grad()) return;
  throw Error(fmt::format(
      "[{}] class_weights ask for a gradient, which they do not get; detach them", function));
}

Tensor reduced(const Tensor& losses, kernels::Reduction reduction) {
  switch (reduction) {
    case kernels::Reduction::none: return losses;
    case kernels::Reduction::sum: return sum(losses);
    case kernels::Reduction::mean: break;
  }
  return mean(losses);
}

namespace {

using kernels::PairLoss;
using kernels::PairLossParams;

// The derivatives of the losses by x and by the target, from public functions.
Tensor slope(const PairLossParams& params, const Tensor& x, const Tensor& t) {
  switch (params.op) {
    case PairLoss::squared: return (x - t) * 2;
    case PairLoss::absolute: return sign(x - t);
    case PairLoss::huber: return clamp(x - t, -params.knee, params.knee);
    case PairLoss::binary: return sigmoid(x) - t;
    case PairLoss::divergence: return -t;
    case PairLoss::log_divergence: break;
  }
  return -exp(t);
}
Tensor target_slope(const PairLossParams& params, const Tensor& x, const Tensor& t) {
  switch (params.op) {
    case PairLoss::binary: return -x;
    case PairLoss::divergence: {
      const Tensor is_zero = equal(t, scalar_like(t, 0));
      return where(is_zero, 0, log(where(is_zero, 1, t)) + 1 - x);
    }
    case PairLoss::log_divergence: return exp(t) * (t - x + 1);
    default: return -slope(params, x, t);
  }
}

struct PairLossNode final : Node {
  PairLossNode(const char* function, const Tensor& x, const Tensor& target,
               const PairLossParams& params)
      : function(function), x(x), target(target), params(params) {}
  const char* name() const override { return function; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (grad_enabled()) return composed(grads[0]);
    const Tensor dx = needs_gradient(0) ? grad_buffer(0) : Tensor();
    const Tensor dtarget = needs_gradient(1) ? grad_buffer(1) : Tensor();
    run(kernels::PairLossBackward{.x = x.unpack(*this),
                                  .target = target.unpack(*this),
                                  .dloss = grads[0],
                                  .dx = dx,
                                  .dtarget = dtarget,
                                  .loss_params = params});
    return {dx, dtarget};
  }

  std::vector<Tensor> composed(const Tensor& dloss) const {
    const Tensor &from = x.unpack(*this), &to = target.unpack(*this);
    const Tensor wide_x = from.to(dloss.dtype()), wide_target = to.to(dloss.dtype());
    const Tensor scale = params.divisor == 1 ? dloss : dloss / params.divisor;
    std::vector<Tensor> gradients(2);
    if (needs_gradient(0)) {
      gradients[0] = (scale * slope(params, wide_x, wide_target)).to(from.dtype());
    }
    if (needs_gradient(1)) {
      gradients[1] = (scale * target_slope(params, wide_x, wide_target)).to(to.dtype());
    }
    return gradients;
  }

  const char* function;
  SavedTensor x, target;
  PairLossParams params;
};

}  // namespace

Tensor of_pair(const char* function, const Tensor& x, const Tensor& target, PairLossParams params,
               kernels::Reduction reduction) {
  if (reduction == kernels::Reduction::mean) params.divisor *= double(x.numel());
  const Tensor loss = Tensor::empty(reduction == kernels::Reduction::none ? x.shape() : Shape{},
                                    {.dtype = wide_dtype(x), .device = x.device()});
  run(kernels::PairLossForward{.x = x, .target = target, .loss = loss, .loss_params = params});
  record<PairLossNode>({loss}, {x, target}, function, x, target, params);
  return loss;
}

}  // namespace adret::loss
