// Matrix products on cuBLASLt or kernels of our own: for each problem, the way is found once.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/cuda/context.h>
#include <adret/core/tensor_view.h>

#include <cstdint>

namespace adret::cuda {

// What is computed along with a product: inside its kernel where that can, else by another one.
// bias: y += beside (columns); relu: of y, after the bias; bias_gradient: beside (rows) = the sums
// of op(a) over `depth`; a is transposed then. relu_slope, gelu_slope, gelu_tanh_slope: y *= the
// activation's derivative at `beside` (rows, columns), which is as `saved` in UnaryBackward.
// bias_gelu_tanh: `before` (rows, columns) gets the sum with the bias, y gelu_tanh of it.
enum class Epilogue : uint8_t {
  none,
  bias,
  relu,
  bias_relu,
  bias_gradient,
  relu_slope,
  gelu_slope,
  gelu_tanh_slope,
  bias_gelu_tanh
};

// y (rows, columns) = or += op(a) op(b) over `depth`, `batch` times; dense and row-major. No size
// is 0, batch at most 65535. An epilogue comes with neither a batch nor accumulation.
struct Product {
  int64_t rows, columns, depth, batch = 1;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  Epilogue epilogue = Epilogue::none;
  MathMode math = MathMode::exact;
};

struct ProductOperands {
  const TensorView &a, &b, &y;
  const TensorView& beside;  // what the epilogue reads or writes; undefined for none and relu
  const TensorView& before = none;

  static inline const TensorView none;
};

// Throws DeviceError when cuBLASLt has no algorithm for it.
void multiply(Context& context, const Product& product, const ProductOperands& operands);

// Our own kernel without tensor cores, epilogue included; for products whose multiply-adds and
// whose rows are few.
void multiply_small(Context& context, const Product& product, const ProductOperands& operands);

// The kernel behind the epilogues: y (rows, columns) += bias, then ReLU if asked; bias may be
// undefined.
void add_bias(Context& context, const TensorView& y, const TensorView& bias, bool relu);

}  // namespace adret::cuda
