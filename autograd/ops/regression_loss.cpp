// Losses of the difference of a prediction and its target.
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using kernels::PairLoss;

Tensor of_difference(const char* function, const Tensor& prediction, const Tensor& target,
                     const kernels::PairLossParams& params, Reduction reduction) {
  loss::check_pair(function, {"prediction", prediction}, {"target", target});
  return loss::of_pair(function, prediction, target, params, reduction);
}

}  // namespace

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const FunctionScope scope("mse_loss");
  return of_difference("mse_loss", prediction, target, {.op = PairLoss::squared},
                       options.reduction);
}

Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  const FunctionScope scope("l1_loss");
  return of_difference("l1_loss", prediction, target, {.op = PairLoss::absolute},
                       options.reduction);
}

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target,
                      const SmoothL1Options& options) {
  const FunctionScope scope("smooth_l1_loss");
  if (!(options.beta >= 0)) {
    check::refuse("smooth_l1_loss", fmt::format("beta is {}, wanted 0 or more", options.beta));
  }
  kernels::PairLossParams params{.op = PairLoss::absolute};
  if (options.beta > 0) {
    params = {.op = PairLoss::huber, .knee = options.beta, .divisor = options.beta};
  }
  return of_difference("smooth_l1_loss", prediction, target, params, options.reduction);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options) {
  const FunctionScope scope("huber_loss");
  if (!(options.delta > 0)) {
    check::refuse("huber_loss", fmt::format("delta is {}, wanted more than 0", options.delta));
  }
  return of_difference("huber_loss", prediction, target,
                       {.op = PairLoss::huber, .knee = options.delta}, options.reduction);
}

}  // namespace adret
