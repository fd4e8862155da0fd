// Elementwise arithmetic of one operand.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <cmath>
#include <initializer_list>

namespace adret {
namespace {

using namespace kernels;

// A scalar takes the dtype of the tensor, in which it may not become infinite. Those of other
// functions and of gradients are ours; 16 bits are computed in f32, so they may be large.
void check_scalars(const char* function, std::initializer_list<double> scalars, DType dtype) {
  const CurrentFunction now = current_function();
  if (now.name != function || now.backward) return;
  for (const double scalar : scalars) check_holds(function, scalar, dtype);
}

Tensor unary(const char* function, check::Argument x, const Unary& call,
             std::initializer_list<double> scalars = {}) {
  const FunctionScope scope(function);
  check::floating(function, x);
  check_scalars(function, scalars, x.tensor.dtype());
  Tensor y = empty_like(x.tensor);
  run(Unary{.x = x.tensor, .y = y, .op = call.op, .alpha = call.alpha, .beta = call.beta});
  return y;
}

Tensor unary(const Tensor& x, const Unary& call) {
  return unary(to_string(call.op), {"x", x}, call);
}

// Of integers, for which there is but the kernel of two operands; a and b broadcast to x.
Tensor integers(BinaryOp op, const Tensor& x, const Tensor& a, const Tensor& b) {
  Tensor y = empty_like(x);
  run(Binary{.a = a, .b = b, .y = y, .op = op});
  return y;
}

bool is_integer(const Tensor& x) {
  return x.defined() && !is_floating(x.dtype()) && x.dtype() != DType::boolean;
}

Tensor integers(BinaryOp op, const Tensor& a, double b) {
  const FunctionScope scope(to_string(op));
  return integers(op, a, a, scalar_like(a, b));
}

struct Line {
  double scale, shift;
};

// Of affine, and of sums and products with scalars: `function` and they are what the user wrote.
Tensor affine_of(const char* function, check::Argument x, Line line,
                 std::initializer_list<double> scalars = {});

struct AffineBackward final : Node {
  AffineBackward(const char* function, double scale) : function(function), scale(scale) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {scale == 1 ? grads[0] : affine_of(function, {"gradient", grads[0]}, {scale, 0})};
  }
  const char* function;
  double scale;
};

Tensor affine_of(const char* function, check::Argument x, Line line,
                 std::initializer_list<double> scalars) {
  const Unary call{.op = UnaryOp::affine, .alpha = line.scale, .beta = line.shift};
  Tensor y = unary(function, x, call, scalars);
  record<AffineBackward>({y}, {x.tensor}, function, line.scale);
  return y;
}

// Whether x / b is x times 1 / b in every bit: b is a power of two, and so is 1 / b, in f32, too.
bool has_exact_reciprocal(double b) {
  int exponent = 0;
  return std::abs(std::frexp(b, &exponent)) == 0.5 && std::abs(exponent) < 126;
}

// x / b.
Tensor quotient(check::Argument x, double b, std::initializer_list<double> scalars = {});

struct QuotientBackward final : Node {
  explicit QuotientBackward(double b) : b(b) {}
  const char* name() const override { return "divide"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {quotient({"gradient", grads[0]}, b)};
  }
  double b;
};

Tensor quotient(check::Argument x, double b, std::initializer_list<double> scalars) {
  if (has_exact_reciprocal(b)) return affine_of("divide", x, {1 / b, 0}, scalars);
  Tensor y = unary("divide", x, {.op = UnaryOp::divide, .alpha = b}, scalars);
  record<QuotientBackward>({y}, {x.tensor}, b);
  return y;
}

struct ReciprocalBackward final : Node {
  ReciprocalBackward(const char* function, const Tensor& x, const Tensor& y)
      : function(function), x(x), y(y) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {-(grads[0] * (y.unpack(*this) / x.unpack(*this)))};
  }
  const char* function;
  SavedTensor x;
  SavedOutput y;
};

// numerator / x.
Tensor reciprocal_of(const char* function, check::Argument x, double numerator) {
  Tensor y = unary(function, x, {.op = UnaryOp::reciprocal, .alpha = numerator}, {numerator});
  record<ReciprocalBackward>({y}, {x.tensor}, function, x.tensor, y);
  return y;
}

struct AbsBackward final : Node {
  explicit AbsBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "abs"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0] * sign(x.unpack(*this))};
  }
  SavedTensor x;
};

struct SignBackward final : Node {
  const char* name() const override { return "sign"; }
  std::vector<Tensor> backward(const std::vector<Tensor>&) override { return {Tensor()}; }
};

struct ClampBackward final : Node {
  ClampBackward(const Tensor& x, double low, double high) : x(x), low(low), high(high) {}
  const char* name() const override { return "clamp"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    const Tensor& dy = grads[0];
    const Tensor dx = grad_buffer(0);
    run(UnaryBackward{
        .saved = in, .dy = dy, .dx = dx, .op = UnaryOp::clamp, .alpha = low, .beta = high});
    record<ClampBackward>({dx}, {dy}, in, low, high);  // linear in dy, flat in x
    return {dx};
  }
  SavedTensor x;
  double low, high;
};

struct SquareBackward final : Node {
  explicit SquareBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "square"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0] * affine(x.unpack(*this), 2, 0)};
  }
  SavedTensor x;
};

struct PowerBackward final : Node {
  PowerBackward(const Tensor& x, double exponent) : x(x), exponent(exponent) {}
  const char* name() const override { return "pow"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (exponent == 0) return {Tensor()};  // and not 0 * x^-1, which is NaN at 0
    return {grads[0] * affine(pow(x.unpack(*this), exponent - 1), exponent, 0)};
  }
  SavedTensor x;
  double exponent;
};

}  // namespace

Tensor affine(const Tensor& x, double scale, double shift) {
  const FunctionScope scope("affine");
  if (is_integer(x)) {
    return integers(BinaryOp::add, integers(BinaryOp::multiply, x, scale), shift);
  }
  return affine_of("affine", {"x", x}, {scale, shift}, {scale, shift});
}

Tensor add(const Tensor& a, double b) {
  if (is_integer(a)) return integers(BinaryOp::add, a, b);
  return affine_of("add", {"a", a}, {1, b}, {b});
}
Tensor subtract(const Tensor& a, double b) {
  if (is_integer(a)) return integers(BinaryOp::subtract, a, b);
  return affine_of("subtract", {"a", a}, {1, -b}, {b});
}
Tensor subtract(double a, const Tensor& b) {
  if (!is_integer(b)) return affine_of("subtract", {"b", b}, {-1, a}, {a});
  const FunctionScope scope("subtract");
  return integers(BinaryOp::subtract, b, scalar_like(b, a), b);
}
Tensor multiply(const Tensor& a, double b) {
  if (is_integer(a)) return integers(BinaryOp::multiply, a, b);
  return affine_of("multiply", {"a", a}, {b, 0}, {b});
}

Tensor divide(const Tensor& a, double b) {
  if (a.defined()) check::divisible("divide", {"a", a});
  if (a.defined() && b != 0 && wide_dtype(a) == DType::f32 && float(b) == 0) {
    check::refuse("divide", fmt::format("the divisor {} is 0 in f32; divide by a tensor of f64, or "
                                        "in two steps",
                                        b));
  }
  return quotient({"a", a}, b, {b});
}
Tensor divide(double a, const Tensor& b) {
  if (b.defined()) check::divisible("divide", {"b", b});
  return reciprocal_of("divide", {"b", b}, a);
}

Tensor reciprocal(const Tensor& x, double numerator) {
  return reciprocal_of("reciprocal", {"x", x}, numerator);
}

Tensor abs(const Tensor& x) {
  const FunctionScope scope("abs");
  check::number("abs", {"x", x});
  if (is_integer(x)) {
    return integers(BinaryOp::maximum, x, x, x.dtype() == DType::u8 ? x : negative(x));
  }
  Tensor y = unary(x, {.op = UnaryOp::abs});
  record<AbsBackward>({y}, {x}, x);
  return y;
}

Tensor sign(const Tensor& x) {
  const FunctionScope scope("sign");
  check::number("sign", {"x", x});
  if (is_integer(x)) return clamp(x, -1, 1);
  Tensor y = unary(x, {.op = UnaryOp::sign});
  record<SignBackward>({y}, {x});
  return y;
}

Tensor negative(const Tensor& x) {
  const FunctionScope scope("negative");
  check::number("negative", {"x", x});
  if (is_integer(x)) return integers(BinaryOp::subtract, x, scalar_like(x, 0), x);
  return affine_of("negative", {"x", x}, {-1, 0});
}

Tensor clamp(const Tensor& x, double low, double high) {
  const FunctionScope scope("clamp");
  check::number("clamp", {"x", x});
  if (!(low <= high)) {
    check::refuse("clamp", fmt::format("bounds are {} and {}, wanted low <= high", low, high));
  }
  if (is_integer(x)) {
    const auto bound = [&](double end) {
      if (!is_out_of_range(end, x.dtype())) check_holds("clamp", end, x.dtype());
      Tensor y = empty_like(x, {});
      run(Fill{.y = y, .value = end});  // the nearest integer that there is
      return y;
    };
    return integers(BinaryOp::minimum, x, integers(BinaryOp::maximum, x, x, bound(low)),
                    bound(high));
  }
  // Bounds beyond the range bind nothing, but on the wrong side they would be the result.
  if (low > 0) check_holds("clamp", low, x.dtype());
  if (high < 0) check_holds("clamp", high, x.dtype());
  Tensor y = unary(x, {.op = UnaryOp::clamp, .alpha = low, .beta = high});
  record<ClampBackward>({y}, {x}, x, low, high);
  return y;
}

Tensor square(const Tensor& x) {
  const FunctionScope scope("square");
  check::number("square", {"x", x});
  Tensor y = empty_like(x);
  run(Binary{.a = x, .b = x, .y = y, .op = BinaryOp::multiply});
  record<SquareBackward>({y}, {x}, x);
  return y;
}

Tensor pow(const Tensor& x, double exponent) {
  const FunctionScope scope("pow");
  if (is_integer(x)) {
    if (exponent < 0) {
      check::refuse("pow", fmt::format("the exponent of integers is {}, wanted 0 or more; convert "
                                       "x with to(DType::f32)",
                                       exponent));
    }
    return integers(BinaryOp::power, x, x, scalar_like(x, exponent));
  }
  Tensor y = unary("pow", {"x", x}, {.op = UnaryOp::power, .alpha = exponent}, {exponent});
  record<PowerBackward>({y}, {x}, x, exponent);
  return y;
}

}  // namespace adret
