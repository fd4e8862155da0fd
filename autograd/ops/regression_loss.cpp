// Losses of the difference of a prediction and its target, composed.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

Tensor difference(const char* function, const Tensor& prediction, const Tensor& target) {
  loss::check_pair(function, {"prediction", prediction}, {"target", target});
  const DType wide = wide_dtype(prediction);
  return prediction.to(wide) - target.to(wide);
}

// d^2 / 2 up to `knee`, from there on a line.
Tensor bent(const Tensor& d, double knee) {
  const Tensor size = abs(d);
  return where(less_equal(size, scalar_like(size, knee)), square(d) * 0.5,
               affine(size, knee, -0.5 * knee * knee));
}

}  // namespace

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const FunctionScope scope("mse_loss");
  return loss::reduced(square(difference("mse_loss", prediction, target)), options.reduction);
}

Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const FunctionScope scope("l1_loss");
  return loss::reduced(abs(difference("l1_loss", prediction, target)), options.reduction);
}

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target,
                      const SmoothL1Options& options) {
  const FunctionScope scope("smooth_l1_loss");
  if (!(options.beta >= 0)) {
    check::refuse("smooth_l1_loss", fmt::format("beta is {}, wanted 0 or more", options.beta));
  }
  const Tensor d = difference("smooth_l1_loss", prediction, target);
  return loss::reduced(options.beta == 0 ? abs(d) : bent(d, options.beta) / options.beta,
                       options.reduction);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options) {
  const FunctionScope scope("huber_loss");
  if (!(options.delta > 0)) {
    check::refuse("huber_loss", fmt::format("delta is {}, wanted more than 0", options.delta));
  }
  return loss::reduced(bent(difference("huber_loss", prediction, target), options.delta),
                       options.reduction);
}

}  // namespace adret
