// Elementwise arithmetic of two operands, with broadcasting, and comparisons.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>

namespace adret {
namespace {

using namespace kernels;

Tensor binary(BinaryOp op, const Tensor& a, const Tensor& b) {
  const FunctionScope scope(to_string(op));
  const char* function = to_string(op);
  check::alike(function, {"a", a}, {"b", b});
  if (op == BinaryOp::divide) {
    check::divisible(function, {"a", a});
  } else if (!is_comparison(op)) {
    check::number(function, {"a", a});
  }
  const Shape shape = broadcast(function, a.shape(), b.shape());
  const DType dtype = is_comparison(op) ? DType::boolean : a.dtype();
  Tensor y = Tensor::empty(shape, {.dtype = dtype, .device = a.device()});
  run(Binary{.a = a, .b = b, .y = y, .op = op});
  return y;
}

// An operand only where the other one's gradient needs it.
Tensor kept_for(const Tensor& operand, const Tensor& other) {
  return other.requires_grad() ? operand : Tensor();
}

}  // namespace

// -- sums ---------------------------------------------------------------------

namespace {

struct AddBackward final : Node {
  AddBackward(BinaryOp op, const Shape& a, const Shape& b) : op(op), a(a), b(b) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(grads[0], a);
    if (needs_gradient(1)) {
      result[1] = sum_to(grads[0], b);
      if (op == BinaryOp::subtract) result[1] = -result[1];
    }
    return result;
  }
  BinaryOp op;
  Shape a, b;
};

Tensor add_or_subtract(BinaryOp op, const Tensor& a, const Tensor& b) {
  Tensor y = binary(op, a, b);
  record<AddBackward>({y}, {a, b}, op, a.shape(), b.shape());
  return y;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return add_or_subtract(BinaryOp::add, a, b); }
Tensor subtract(const Tensor& a, const Tensor& b) {
  return add_or_subtract(BinaryOp::subtract, a, b);
}

// -- products -------------------------------------------------------------------

namespace {

struct MultiplyBackward final : Node {
  MultiplyBackward(const Tensor& a, const Tensor& b)
      : a(kept_for(a, b)), b(kept_for(b, a)), a_shape(a.shape()), b_shape(b.shape()) {}
  const char* name() const override { return "multiply"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(grads[0] * b.unpack(*this), a_shape);
    if (needs_gradient(1)) result[1] = sum_to(grads[0] * a.unpack(*this), b_shape);
    return result;
  }
  SavedTensor a, b;
  Shape a_shape, b_shape;
};

struct DivideBackward final : Node {
  DivideBackward(const Tensor& a, const Tensor& b)
      : a(kept_for(a, b)), b(b), a_shape(a.shape()), b_shape(b.shape()) {}
  const char* name() const override { return "divide"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& divisor = b.unpack(*this);
    const Tensor da = grads[0] / divisor;
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(da, a_shape);
    if (needs_gradient(1)) result[1] = sum_to(-(da * (a.unpack(*this) / divisor)), b_shape);
    return result;
  }
  SavedTensor a, b;
  Shape a_shape, b_shape;
};

}  // namespace

Tensor multiply(const Tensor& a, const Tensor& b) {
  Tensor y = binary(BinaryOp::multiply, a, b);
  record<MultiplyBackward>({y}, {a, b}, a, b);
  return y;
}

Tensor divide(const Tensor& a, const Tensor& b) {
  Tensor y = binary(BinaryOp::divide, a, b);
  record<DivideBackward>({y}, {a, b}, a, b);
  return y;
}

// -- the larger and the smaller ---------------------------------------------------

namespace {

struct MaximumBackward final : Node {
  MaximumBackward(BinaryOp op, const Tensor& a, const Tensor& b) : op(op), a(a), b(b) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& left = a.unpack(*this);
    const Tensor& right = b.unpack(*this);
    const bool larger = op == BinaryOp::maximum;
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      result[0] =
          sum_to(grads[0] * (larger ? share(left, right) : share(right, left)), left.shape());
    }
    if (needs_gradient(1)) {
      result[1] =
          sum_to(grads[0] * (larger ? share(right, left) : share(left, right)), right.shape());
    }
    return result;
  }
  // 1 where a is larger, 1/2 where both are equal (an infinite a - b would be of no use).
  static Tensor share(const Tensor& a, const Tensor& b) {
    return (greater(a, b).to(a.dtype()) + greater_equal(a, b).to(a.dtype())) * 0.5;
  }
  BinaryOp op;
  SavedTensor a, b;
};

Tensor extreme(BinaryOp op, const Tensor& a, const Tensor& b) {
  Tensor y = binary(op, a, b);
  record<MaximumBackward>({y}, {a, b}, op, a, b);
  return y;
}

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) { return extreme(BinaryOp::maximum, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return extreme(BinaryOp::minimum, a, b); }

// -- powers ---------------------------------------------------------------------

namespace {

struct PowBackward final : Node {
  PowBackward(const Tensor& x, const Tensor& exponent, const Tensor& y)
      : x(x), exponent(exponent), y(y) {}
  const char* name() const override { return "pow"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& base = x.unpack(*this);
    const Tensor& power = exponent.unpack(*this);
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      // x^-1 where the exponent is 0 would give 0 * infinity at x = 0.
      const Tensor lower = power - 1 + is_zero(power);
      result[0] = sum_to(grads[0] * power * pow(base, lower), base.shape());
    }
    if (needs_gradient(1)) {
      const Tensor logarithm = log(base + is_zero(base));  // y is 0 there
      result[1] = sum_to(grads[0] * y.unpack(*this) * logarithm, power.shape());
    }
    return result;
  }
  static Tensor is_zero(const Tensor& x) {
    const Tensor zero = Tensor::zeros({}, {.dtype = x.dtype(), .device = x.device()});
    return equal(x, zero).to(x.dtype());
  }
  SavedTensor x, exponent;
  SavedOutput y;
};

}  // namespace

Tensor pow(const Tensor& x, const Tensor& exponent) {
  const FunctionScope scope("pow");
  Tensor y = binary(BinaryOp::power, x, exponent);
  record<PowBackward>({y}, {x, exponent}, x, exponent, y);
  return y;
}

// -- comparisons ------------------------------------------------------------------

Tensor equal(const Tensor& a, const Tensor& b) { return binary(BinaryOp::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return binary(BinaryOp::not_equal, a, b); }
Tensor less(const Tensor& a, const Tensor& b) { return binary(BinaryOp::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return binary(BinaryOp::less_equal, a, b); }
Tensor greater(const Tensor& a, const Tensor& b) { return binary(BinaryOp::greater, a, b); }
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return binary(BinaryOp::greater_equal, a, b);
}

namespace {

Tensor compare(BinaryOp op, const Tensor& a, double b) {
  const FunctionScope scope(to_string(op));
  return binary(op, a, scalar_like(a, b));
}

}  // namespace

Tensor equal(const Tensor& a, double b) { return compare(BinaryOp::equal, a, b); }
Tensor not_equal(const Tensor& a, double b) { return compare(BinaryOp::not_equal, a, b); }
Tensor less(const Tensor& a, double b) { return compare(BinaryOp::less, a, b); }
Tensor less_equal(const Tensor& a, double b) { return compare(BinaryOp::less_equal, a, b); }
Tensor greater(const Tensor& a, double b) { return compare(BinaryOp::greater, a, b); }
Tensor greater_equal(const Tensor& a, double b) { return compare(BinaryOp::greater_equal, a, b); }

}  // namespace adret
