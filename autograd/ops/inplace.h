// Writes into existing tensors, under NoGrad only; saved tensors notice.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// Each throws Error outside NoGrad, and ShapeError when shapes or dtypes differ, `to` and `from`
// share part of their memory, or x's dtype cannot hold the value.
void fill_(const Tensor& x, double value);
void copy_(const Tensor& to, const Tensor& from);  // also between devices
void add_(const Tensor& to, const Tensor& from);   // DeviceError for two devices

}  // namespace adret
