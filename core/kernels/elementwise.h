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

// y[i] = first + i * step, the second half last - (n - 1 - i) * step, so that both ends are exact:
// one rounding in f64, then to y's dtype as a cast. Every dtype but boolean.
struct Arange {
  static constexpr const char* name = "arange";
  TensorView y;
  double first = 0, step = 1, last = 0;

  auto inputs() const { return operands(); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 2 * double(y.numel()); }
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
  divide,      // x / alpha
  abs,
  sign,   // -1, 0, 1
  clamp,  // min(max(x, alpha), beta); alpha <= beta
  floor,
  ceil,
  round,  // to the nearest integer, halves to the even one
  trunc,
  exp,
  exp2,
  expm1,  // exp(x) - 1
  log,
  log2,
  log1p,  // log(1 + x)
  sqrt,
  rsqrt,  // 1 / sqrt(x)
  erf,
  erfc,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  relu,
  relu6,  // min(max(x, 0), 6)
  sigmoid,
  tanh,
  gelu,         // exact: x * Phi(x), Hendrycks and Gimpel 2016
  gelu_tanh,    // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the same paper's approximation
  silu,         // x * sigmoid(x), Elfwing et al. 2017
  mish,         // x * tanh(log(1 + exp(x))), Misra 2019
  softplus,     // log(1 + exp(alpha x)) / alpha; x where alpha x > beta
  elu,          // beta x where x > 0, else beta alpha (exp(x) - 1), Clevert et al. 2015
  leaky_relu,   // x where x > 0, else alpha x
  hardsigmoid,  // min(max(x / 6 + 1/2, 0), 1)
  hardswish,    // x * hardsigmoid(x), Howard et al. 2019
  softsign      // x / (1 + |x|)
};
const char* to_string(UnaryOp op);
// The families that backends keep apart; the others are arithmetic.
constexpr bool is_exponential(UnaryOp op) { return op >= UnaryOp::exp && op <= UnaryOp::erfc; }
constexpr bool is_trigonometric(UnaryOp op) { return op >= UnaryOp::sin && op <= UnaryOp::cosh; }
constexpr bool is_activation(UnaryOp op) { return op >= UnaryOp::relu; }

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

// dx = dy * op'(x) for clamp and the activations, with their alpha and beta. `saved` is the output
// y of relu, relu6, sigmoid and tanh, the input x of the others. At a kink the derivative is that
// of the flat side, if there is one, but 1 at the ends of clamp; it is alpha at 0 for leaky_relu
// and alpha beta for elu. dx may be dy.
struct UnaryBackward {
  static constexpr const char* name = "unary_backward";
  TensorView saved, dy, dx;
  UnaryOp op = UnaryOp::relu;
  double alpha = 1, beta = 0;

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
  power,
  atan2,      // the angle of (b, a)
  hypot,      // sqrt(a^2 + b^2) without overflow in between
  fmod,       // a - b * trunc(a / b), with a's sign
  remainder,  // a - b * floor(a / b), with b's sign; y has the operands' dtype
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
// Arithmetic takes floating dtypes and i32, i64, u8 (atan2 and hypot floats alone); comparisons
// take every dtype. NaN wins in maximum and minimum, infinity in hypot. Integers wrap; their
// quotient is rounded down, and quotients and remainders of a divisor of 0 are 0.
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

// y = condition ? a : b, all of which broadcast to y's shape; a, b and y have one dtype, the
// condition is boolean. y may be an operand of its own shape and dtype.
struct Select {
  static constexpr const char* name = "select";
  TensorView condition, a, b, y;

  auto inputs() const {
    return operands(Operand{"condition", condition}, Operand{"a", a}, Operand{"b", b});
  }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
};

}  // namespace adret::kernels
