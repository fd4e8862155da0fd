// Matrix products.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/kernels/elementwise.h>
#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

// Functions that follow a product in the same call. gelu is exact: x * Phi(x), Hendrycks and Gimpel
// 2016; gelu_tanh is its approximation by tanh, as GPT-2 has it.
enum class Activation { none, relu, gelu, gelu_tanh };
const char* to_string(Activation activation);
// The elementwise kernel that computes an activation other than none.
constexpr UnaryOp unary_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return UnaryOp::gelu;
    case Activation::gelu_tanh: return UnaryOp::gelu_tanh;
    default: return UnaryOp::relu;
  }
}
// Whether the derivative follows from what the activation is of, not from its result.
constexpr bool is_gelu(Activation activation) {
  return activation == Activation::gelu || activation == Activation::gelu_tanh;
}

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
// `before` (N, O) gets what the activation is of, which the gradients of both gelus need;
// undefined, if not wanted, and for none.
struct LinearForward {
  static constexpr const char* name = "linear_forward";
  TensorView x, weight, bias, y, before;
  Activation activation = Activation::none;
  MathMode math = MathMode::exact;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"weight", weight}, Operand{"bias", bias});
  }
  auto outputs() const { return operands(Operand{"y", y}, Operand{"before", before}); }
  double flops() const { return 2.0 * double(x.numel()) * double(weight.shape[0]); }
  std::string params() const;
};

// dx = (dy weight) * activation'(saved): dy (N, O), weight (O, I), dx (N, I). The activation is the
// one that gave x; `saved` (N, I) is as in UnaryBackward, x of relu and what a gelu is of, and
// undefined for none.
struct LinearBackwardInput {
  static constexpr const char* name = "linear_backward_input";
  TensorView dy, weight, saved, dx;
  Activation activation = Activation::none;
  MathMode math = MathMode::exact;

  auto inputs() const {
    return operands(Operand{"dy", dy}, Operand{"weight", weight}, Operand{"saved", saved});
  }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return 2.0 * double(dx.numel()) * double(weight.shape[0]); }
  std::string params() const;
};

// dweight = dy^T x, dbias = sum of dy over N; either may be undefined. All zero for N = 0.
struct LinearBackwardWeight {
  static constexpr const char* name = "linear_backward_weight";
  TensorView x, dy, dweight, dbias;
  MathMode math = MathMode::exact;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dweight", dweight}, Operand{"dbias", dbias}); }
  double flops() const { return 2.0 * double(x.numel()) * double(dy.shape[1]); }
  std::string params() const;
};

}  // namespace adret::kernels
