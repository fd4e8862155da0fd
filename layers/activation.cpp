// The activations whose options can be wrong, and the one that learns.
#include <adret/core/error.h>
#include <adret/layers/activation.h>
#include <adret/layers/check.h>

namespace adret {

Softplus::Softplus(const SoftplusOptions& options) : options(options) {
  if (options.beta == 0) throw Error("[Softplus] beta is 0; it must be any other number");
}

PReLU::PReLU(int64_t channels, double slope)
    : channels(at_least(1, channels, "PReLU", "channels")),
      weight(parameter("weight", Tensor::full({channels}, slope))) {}

Tensor PReLU::forward(const Tensor& x) { return prelu(in_dtype_of(weight, x), weight); }

}  // namespace adret
