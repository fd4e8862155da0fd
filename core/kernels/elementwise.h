// Kernels that compute each output element from the elements at the same place.
#pragma once

#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

// y = value, converted to y's dtype.
struct Fill {
  static constexpr const char* name = "fill";
  TensorView y;
  double value = 0;

  auto inputs() const { return operands(); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const;
};

// y = x; same dtype and number of elements.
struct Copy {
  static constexpr const char* name = "copy";
  TensorView x, y;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
};

// y = x converted to y's dtype. Floats become integers by truncation, beyond the range the nearest
// one and 0 for NaN; integers wrap; anything not 0 becomes true.
struct Cast {
  static constexpr const char* name = "cast";
  TensorView x, y;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
};

enum class UnaryOp {
  affine,      // alpha * x + beta
  power,       // x^alpha, as std::pow
  reciprocal,  // alpha / x
  exp,
  log,
  sqrt,
  abs,
  sign,  // -1, 0, 1
  relu,
  relu6,  // min(max(x, 0), 6)
  sigmoid,
  tanh,
  gelu,  // exact: x * Phi(x), Hendrycks and Gimpel 2016
};
const char* to_string(UnaryOp op);

// y = op(x), floating dtypes; y may be x.
struct Unary {
  static constexpr const char* name = "unary";
  TensorView x, y;
  UnaryOp op = UnaryOp::affine;
  double alpha = 1, beta = 0;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return double(y.numel()); }
  std::string params() const;
};

// dx = dy * op'(x) for relu, relu6, sigmoid, tanh and gelu. `saved` is the input x of gelu, the
// output y of the others. The derivatives of relu and relu6 at their kinks are 0. dx may be dy.
struct UnaryBackward {
  static constexpr const char* name = "unary_backward";
  TensorView saved, dy, dx;
  UnaryOp op = UnaryOp::relu;

  auto inputs() const { return operands(Operand{"saved", saved}, Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return 2.0 * double(dx.numel()); }
  std::string params() const;
};

enum class BinaryOp {
  add,
  subtract,
  multiply,
  divide,
  maximum,
  minimum,
  power,  // y has the operands' dtype
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal  // y is boolean
};
const char* to_string(BinaryOp op);
constexpr bool is_comparison(BinaryOp op) { return op >= BinaryOp::equal; }

// y = a op b; a and b have one dtype and broadcast to y's shape. y may be a or b of its own shape.
// Arithmetic takes floating dtypes and i32, i64; comparisons take every dtype. NaN wins in maximum
// and minimum. Integers wrap; their quotient truncates and is 0 for a divisor of 0.
struct Binary {
  static constexpr const char* name = "binary";
  TensorView a, b, y;
  BinaryOp op = BinaryOp::add;

  auto inputs() const { return operands(Operand{"a", a}, Operand{"b", b}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return double(y.numel()); }
  std::string params() const;
};

// y = x broadcast to y's shape; same dtype.
struct Broadcast {
  static constexpr const char* name = "broadcast";
  TensorView x, y;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
};

}  // namespace adret::kernels
