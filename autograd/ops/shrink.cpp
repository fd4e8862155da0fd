// Activation functions that are composed of others.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/shrink.h>
#include <fmt/core.h>

namespace adret {

Tensor celu(const Tensor& x, double alpha) {
  const FunctionScope scope("celu");
  check::floating("celu", {"x", x});
  if (!(alpha > 0)) check::refuse("celu", fmt::format("alpha is {}, wanted more than 0", alpha));
  return alpha == 1 ? elu(x) : elu(x / alpha) * alpha;
}

Tensor threshold(const Tensor& x, double limit, double value) {
  const FunctionScope scope("threshold");
  check::floating("threshold", {"x", x});
  return where(less_equal(x, scalar_like(x, limit)), value, x);
}

Tensor hardshrink(const Tensor& x, double lambda) {
  const FunctionScope scope("hardshrink");
  check::floating("hardshrink", {"x", x});
  return where(less_equal(abs(x), scalar_like(x, lambda)), 0, x);
}

Tensor softshrink(const Tensor& x, double lambda) {
  const FunctionScope scope("softshrink");
  check::floating("softshrink", {"x", x});
  if (!(lambda >= 0)) {
    check::refuse("softshrink", fmt::format("lambda is {}, wanted at least 0", lambda));
  }
  return x - clamp(x, -lambda, lambda);
}

Tensor tanhshrink(const Tensor& x) {
  const FunctionScope scope("tanhshrink");
  check::floating("tanhshrink", {"x", x});
  return x - tanh(x);
}

}  // namespace adret
