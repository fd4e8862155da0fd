// Dropout (Srivastava et al. 2014).
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// In training zeroes each element with probability p (0..1) and scales the rest by 1 / (1 - p); the
// identity otherwise. The mask comes from the dropout stream of core/random.h.
Tensor dropout(const Tensor& x, double p, bool training);

}  // namespace adret
