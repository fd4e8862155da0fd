// Activation functions, elementwise on floating tensors.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

Tensor relu(const Tensor& x);     // max(x, 0); derivative 0 at 0
Tensor relu6(const Tensor& x);    // min(max(x, 0), 6); derivative 0 at 0 and 6
Tensor sigmoid(const Tensor& x);  // 1 / (1 + exp(-x))
Tensor tanh(const Tensor& x);
Tensor gelu(const Tensor& x);  // x * Phi(x), exact (Hendrycks and Gimpel 2016)

}  // namespace adret
