// The activation that learns.
#include <adret/layers/activation.h>
#include <adret/layers/check.h>

namespace adret {

PReLU::PReLU(int64_t channels, double slope)
    : channels(at_least(1, channels, "PReLU", "channels")),
      weight(parameter("weight", Tensor::full({channels}, slope))) {}

Tensor PReLU::forward(const Tensor& x) { return prelu(in_dtype_of(weight, x), weight); }

}  // namespace adret
