// Gradients that the nodes of several functions share.
#pragma once

#include <adret/core/kernels/elementwise.h>
#include <adret/core/tensor.h>

namespace adret {

// dy * op'(x) for relu, relu6, sigmoid, tanh, gelu and gelu_tanh; `saved` as in
// kernels::UnaryBackward. Overwrites dy when nobody else holds it and no graph is recorded; can be
// differentiated again.
Tensor activation_backward(kernels::UnaryOp op, const Tensor& saved, const Tensor& dy);

}  // namespace adret
