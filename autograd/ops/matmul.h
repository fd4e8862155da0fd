// Matrix products and the linear layer's function. Operands have one floating dtype and device,
// else ShapeError or DeviceError.
#pragma once

#include <adret/core/kernels/matmul.h>
#include <adret/core/tensor.h>

namespace adret {

using kernels::Activation;

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;  // the last two dimensions
};

// (..., M, K) (..., K, N) -> (..., M, N), the dimensions before the last two broadcast: a matrix is
// multiplied with each of a batch without being copied. A vector (K) is a row on the left and a
// column on the right, and leaves the result with its dimension: (K) (K) is a scalar. Throws
// ShapeError for scalars, batches that do not broadcast, a K that differs, and a vector to be
// transposed.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

struct LinearOptions {
  Activation activation = Activation::none;
};

// activation(x weight^T + bias): x (..., I), weight (O, I), bias (O) or undefined -> (..., O).
// Throws ShapeError when the features I of x and weight, or the outputs O of weight and bias,
// differ.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const LinearOptions& options = {});

}  // namespace adret
