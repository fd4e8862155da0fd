// Elementary functions and their derivatives.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <limits>
#include <numbers>

namespace adret {
namespace {

using namespace kernels;

// -- one operand ------------------------------------------------------------------

// Whether the derivative follows from the output rather than from x.
bool keeps_output(UnaryOp op) {
  return op == UnaryOp::exp || op == UnaryOp::exp2 || op == UnaryOp::expm1 || op == UnaryOp::sqrt ||
         op == UnaryOp::rsqrt || op == UnaryOp::tan;
}

bool is_flat(UnaryOp op) { return op >= UnaryOp::floor && op <= UnaryOp::trunc; }

// exp(-x^2) times the factor of erf.
Tensor bell(const Tensor& x) {
  return exp(affine(square(x), -1, 0)) * (2 * std::numbers::inv_sqrtpi);
}

// dy times the derivative; `kept` is the output, or x.
Tensor derivative(UnaryOp op, const Tensor& kept, const Tensor& dy) {
  switch (op) {
    case UnaryOp::exp: return dy * kept;
    case UnaryOp::exp2: return dy * kept * std::numbers::ln2;
    case UnaryOp::expm1: return dy * (kept + 1);
    case UnaryOp::log: return dy / kept;
    case UnaryOp::log2: return dy / (kept * std::numbers::ln2);
    case UnaryOp::log1p: return dy / (kept + 1);
    case UnaryOp::sqrt: return dy * reciprocal(kept, 0.5);
    case UnaryOp::rsqrt: return dy * pow(kept, 3) * -0.5;
    case UnaryOp::erf: return dy * bell(kept);
    case UnaryOp::erfc: return -(dy * bell(kept));
    case UnaryOp::sin: return dy * cos(kept);
    case UnaryOp::cos: return -(dy * sin(kept));
    case UnaryOp::tan: return dy * (square(kept) + 1);
    case UnaryOp::asin: return dy * rsqrt((1 - kept) * (1 + kept));
    case UnaryOp::acos: return -(dy * rsqrt((1 - kept) * (1 + kept)));
    case UnaryOp::atan: return dy / (square(kept) + 1);
    case UnaryOp::sinh: return dy * cosh(kept);
    case UnaryOp::cosh: return dy * sinh(kept);
    default: return Tensor();  // flat
  }
}

struct ElementaryBackward final : Node {
  ElementaryBackward(UnaryOp op, const Tensor& x, const Tensor& y)
      : op(op),
        x(keeps_output(op) || is_flat(op) ? Tensor() : x),
        y(keeps_output(op) ? y : Tensor()) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (is_flat(op)) return {Tensor()};
    return {derivative(op, keeps_output(op) ? y.unpack(*this) : x.unpack(*this), grads[0])};
  }
  UnaryOp op;
  SavedTensor x;
  SavedOutput y;
};

Tensor apply(UnaryOp op, const Tensor& x) {
  const FunctionScope scope(to_string(op));
  check::floating(to_string(op), {"x", x});
  Tensor y = empty_like(x);
  run(Unary{.x = x, .y = y, .op = op});
  record<ElementaryBackward>({y}, {x}, op, x, y);
  return y;
}

}  // namespace

Tensor exp(const Tensor& x) { return apply(UnaryOp::exp, x); }
Tensor exp2(const Tensor& x) { return apply(UnaryOp::exp2, x); }
Tensor expm1(const Tensor& x) { return apply(UnaryOp::expm1, x); }
Tensor log(const Tensor& x) { return apply(UnaryOp::log, x); }
Tensor log2(const Tensor& x) { return apply(UnaryOp::log2, x); }
Tensor log1p(const Tensor& x) { return apply(UnaryOp::log1p, x); }
Tensor sqrt(const Tensor& x) { return apply(UnaryOp::sqrt, x); }
Tensor rsqrt(const Tensor& x) { return apply(UnaryOp::rsqrt, x); }
Tensor erf(const Tensor& x) { return apply(UnaryOp::erf, x); }
Tensor erfc(const Tensor& x) { return apply(UnaryOp::erfc, x); }
Tensor sin(const Tensor& x) { return apply(UnaryOp::sin, x); }
Tensor cos(const Tensor& x) { return apply(UnaryOp::cos, x); }
Tensor tan(const Tensor& x) { return apply(UnaryOp::tan, x); }
Tensor asin(const Tensor& x) { return apply(UnaryOp::asin, x); }
Tensor acos(const Tensor& x) { return apply(UnaryOp::acos, x); }
Tensor atan(const Tensor& x) { return apply(UnaryOp::atan, x); }
Tensor sinh(const Tensor& x) { return apply(UnaryOp::sinh, x); }
Tensor cosh(const Tensor& x) { return apply(UnaryOp::cosh, x); }
Tensor floor(const Tensor& x) { return apply(UnaryOp::floor, x); }
Tensor ceil(const Tensor& x) { return apply(UnaryOp::ceil, x); }
Tensor round(const Tensor& x) { return apply(UnaryOp::round, x); }
Tensor trunc(const Tensor& x) { return apply(UnaryOp::trunc, x); }

Tensor frac(const Tensor& x) {
  const FunctionScope scope("frac");
  return x - trunc(x);
}

// -- two operands -----------------------------------------------------------------

namespace {

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  check::alike(to_string(op), {"a", a}, {"b", b});
  Tensor y = empty_like(a, broadcast(to_string(op), a.shape(), b.shape()));
  run(Binary{.a = a, .b = b, .y = y, .op = op});
  return y;
}

struct Atan2Backward final : Node {
  Atan2Backward(const Tensor& y, const Tensor& x) : y(y), x(x) {}
  const char* name() const override { return "atan2"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor &up = y.unpack(*this), &along = x.unpack(*this);
    const Tensor scaled = grads[0] / (square(up) + square(along));
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(scaled * along, up.shape());
    if (needs_gradient(1)) result[1] = sum_to(-(scaled * up), along.shape());
    return result;
  }
  SavedTensor y, x;
};

// Of fmod and remainder. The quotient that they took is what is left of a without y: a / b,
// rounded, could be the next one.
struct RemainderBackward final : Node {
  RemainderBackward(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y)
      : op(op), a(a), b(b), y(y), a_shape(a.shape()) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(grads[0], a_shape);
    if (needs_gradient(1)) {
      const Tensor& divisor = b.unpack(*this);
      const Tensor whole = round((a.unpack(*this) - y.unpack(*this)) / divisor);
      result[1] = sum_to(-(grads[0] * whole), divisor.shape());
    }
    return result;
  }
  BinaryOp op;
  SavedTensor a, b;
  SavedOutput y;
  Shape a_shape;
};

struct HypotBackward final : Node {
  HypotBackward(const Tensor& a, const Tensor& b, const Tensor& y) : a(a), b(b), y(y) {}
  const char* name() const override { return "hypot"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor &along = a.unpack(*this), &up = b.unpack(*this), length = y.unpack(*this);
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(grads[0] * (along / length), along.shape());
    if (needs_gradient(1)) result[1] = sum_to(grads[0] * (up / length), up.shape());
    return result;
  }
  SavedTensor a, b;
  SavedOutput y;
};

Tensor rest(BinaryOp op, const Tensor& a, const Tensor& b) {
  const FunctionScope scope(to_string(op));
  check::number(to_string(op), {"a", a});
  Tensor y = binary(op, a, b);
  record<RemainderBackward>({y}, {a, b}, op, a, b, y);
  return y;
}

}  // namespace

Tensor atan2(const Tensor& y, const Tensor& x) {
  const FunctionScope scope("atan2");
  check::floating("atan2", {"y", y});
  Tensor angle = binary(BinaryOp::atan2, y, x);
  record<Atan2Backward>({angle}, {y, x}, y, x);
  return angle;
}

Tensor fmod(const Tensor& a, const Tensor& b) { return rest(BinaryOp::fmod, a, b); }
Tensor remainder(const Tensor& a, const Tensor& b) { return rest(BinaryOp::remainder, a, b); }
Tensor fmod(const Tensor& a, double b) {
  const FunctionScope scope("fmod");
  return fmod(a, scalar_like(a, b));
}
Tensor remainder(const Tensor& a, double b) {
  const FunctionScope scope("remainder");
  return remainder(a, scalar_like(a, b));
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const FunctionScope scope("floor_divide");
  check::alike("floor_divide", {"a", a}, {"b", b});
  if (is_floating(a.dtype()) || a.dtype() == DType::boolean) {
    check::refuse("floor_divide",
                  fmt::format("a {} is {}, wanted integers; of floats write floor(a / b)",
                              to_string(a.shape()), name(a.dtype())));
  }
  return binary(BinaryOp::divide, a, b);
}
Tensor floor_divide(const Tensor& a, double b) {
  const FunctionScope scope("floor_divide");
  if (b == 0) check::refuse("floor_divide", "the divisor is 0");
  return floor_divide(a, scalar_like(a, b));
}

Tensor hypot(const Tensor& a, const Tensor& b) {
  const FunctionScope scope("hypot");
  check::floating("hypot", {"a", a});
  Tensor y = binary(BinaryOp::hypot, a, b);
  record<HypotBackward>({y}, {a, b}, a, b, y);
  return y;
}

// From the nearer end, so that both are met exactly.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const FunctionScope scope("lerp");
  const Tensor distance = b - a;
  const Tensor near_a = less(weight, scalar_like(weight, 0.5));
  return where(near_a, a, b) + where(near_a, weight, weight - 1) * distance;
}

Tensor lerp(const Tensor& a, const Tensor& b, double weight) {
  const FunctionScope scope("lerp");
  check::floating("lerp", {"a", a});
  check_holds("lerp", weight, a.dtype());
  return weight < 0.5 ? a + weight * (b - a) : b + (weight - 1) * (b - a);
}

}  // namespace adret
