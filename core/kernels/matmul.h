// Matrix products.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

enum class Activation { none, relu };
const char* to_string(Activation activation);

// y = op(a) op(b), where op transposes the last two dimensions if asked: (M, K) (K, N) -> (M, N),
// or (B, M, K) (B, K, N) -> (B, M, N). Adds to y if `accumulate`.
struct Matmul {
  static constexpr const char* name = "matmul";
  TensorView a, b, y;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  MathMode math = MathMode::exact;

  auto inputs() const { return operands(Operand{"a", a}, Operand{"b", b}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 2.0 * double(y.numel()) * double(a.shape[transpose_a ? -2 : -1]); }
  std::string params() const;
};

// y = activation(x weight^T + bias): x (N, I), weight (O, I), bias (O) or undefined, y (N, O).
struct LinearForward {
  static constexpr const char* name = "linear_forward";
  TensorView x, weight, bias, y;
  Activation activation = Activation::none;
  MathMode math = MathMode::exact;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"weight", weight}, Operand{"bias", bias});
  }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 2.0 * double(x.numel()) * double(weight.shape[0]); }
  std::string params() const;
};

// dx = dy weight: dy (N, O), weight (O, I), dx (N, I).
struct LinearBackwardInput {
  static constexpr const char* name = "linear_backward_input";
  TensorView dy, weight, dx;
  MathMode math = MathMode::exact;

  auto inputs() const { return operands(Operand{"dy", dy}, Operand{"weight", weight}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return 2.0 * double(dx.numel()) * double(weight.shape[0]); }
};

// dweight = dy^T x, dbias = sum of dy over N; either may be undefined. All zero for N = 0.
struct LinearBackwardWeight {
  static constexpr const char* name = "linear_backward_weight";
  TensorView x, dy, dweight, dbias;
  MathMode math = MathMode::exact;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dweight", dweight}, Operand{"dbias", dbias}); }
  double flops() const { return 2.0 * double(x.numel()) * double(dy.shape[1]); }
};

}  // namespace adret::kernels
