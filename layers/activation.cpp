// The activations whose options can be wrong, and the one that learns.
#include <adret/core/error.h>
#include <adret/layers/activation.h>
#include <adret/layers/check.h>
#include <fmt/core.h>

namespace adret {

Softplus::Softplus(const SoftplusOptions& options) : options(options) {
  if (options.beta == 0) throw Error("[Softplus] beta is 0; it must be any other number");
}

Hardtanh::Hardtanh(double low, double high) : low(low), high(high) {
  if (low <= high) return;
  throw Error(fmt::format("[Hardtanh] low is {}; it must be at most high, {}", low, high));
}

CELU::CELU(double alpha) : alpha(alpha) {
  if (!(alpha > 0)) throw Error(fmt::format("[CELU] alpha is {}; it must be above 0", alpha));
}

Softshrink::Softshrink(double lambda) : lambda(lambda) {
  if (lambda >= 0) return;
  throw Error(fmt::format("[Softshrink] lambda is {}; it must be at least 0", lambda));
}

PReLU::PReLU(int64_t channels, double slope)
    : channels(at_least(1, channels, "PReLU", "channels")),
      weight(parameter("weight", Tensor::full({channels}, slope))) {}

Tensor PReLU::forward(const Tensor& x) { return prelu(in_dtype_of(weight, x), weight); }

}  // namespace adret
