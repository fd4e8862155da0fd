// Softmax and log-softmax along one dimension; the maximum is taken off first.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

Tensor softmax(const Tensor& x, int dim = -1);
Tensor log_softmax(const Tensor& x, int dim = -1);

}  // namespace adret
