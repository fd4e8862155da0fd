// Losses that are negative logarithms of likelihoods, composed.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/likelihood_loss.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss_parts.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace adret {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor widened(const Tensor& x) { return x.to(wide_dtype(x)); }

// t log(t) - t + log(2 pi t) / 2 where t > 1, else 0.
Tensor stirling(const Tensor& t) {
  const Tensor large = clamp(t, 1, infinity);
  const Tensor terms = large * log(large) - large + log(large * (2 * std::numbers::pi)) * 0.5;
  return where(greater(t, scalar_like(t, 1)), terms, 0);
}

}  // namespace

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonNllOptions& options) {
  const FunctionScope scope("poisson_nll_loss");
  loss::check_pair("poisson_nll_loss", {"x", x}, {"target", target});
  check::epsilon("poisson_nll_loss", options.epsilon);
  const Tensor wide = widened(x), t = widened(target);
  Tensor losses = options.log_input ? exp(wide) - t * wide : wide - t * log(wide + options.epsilon);
  if (options.full) losses = losses + stirling(t);
  return loss::reduced(losses, options.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options) {
  const FunctionScope scope("gaussian_nll_loss");
  loss::check_pair("gaussian_nll_loss", {"x", x}, {"target", target});
  loss::check_pair("gaussian_nll_loss", {"x", x}, {"variance", variance});
  check::epsilon("gaussian_nll_loss", options.epsilon);
  const Tensor wide = widened(variance), fixed = wide.detach();
  // A step of the variance itself, so that one below epsilon has a way up.
  const Tensor v = wide + (clamp(fixed, options.epsilon, infinity) - fixed);
  Tensor losses = (log(v) + square(widened(x) - widened(target)) / v) * 0.5;
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return loss::reduced(losses, options.reduction);
}

}  // namespace adret
