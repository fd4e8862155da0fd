// Selection, and boolean functions that are comparisons.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>

#include <limits>

namespace adret {

// -- where ------------------------------------------------------------------------

namespace {

struct WhereBackward final : Node {
  WhereBackward(const Tensor& condition, const Shape& a, const Shape& b)
      : condition(condition), a(a), b(b) {}
  const char* name() const override { return "where"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& chosen = condition.unpack(*this);
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = sum_to(where(chosen, grads[0], 0), a);
    if (needs_gradient(1)) result[1] = sum_to(where(chosen, 0, grads[0]), b);
    return result;
  }
  SavedTensor condition;
  Shape a, b;
};

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const FunctionScope scope("where");
  check::dtype("where", {"condition", condition}, DType::boolean);
  check::alike("where", {"a", a}, {"b", b});
  check::same_device("where", {"a", a}, {"condition", condition});
  const Shape shape =
      broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape()));
  Tensor y = empty_like(a, shape);
  run(kernels::Select{.condition = condition, .a = a, .b = b, .y = y});
  record<WhereBackward>({y}, {a, b}, condition, a.shape(), b.shape());
  return y;
}

Tensor where(const Tensor& condition, const Tensor& a, double b) {
  const FunctionScope scope("where");
  return where(condition, a, scalar_like(a, b));
}

Tensor where(const Tensor& condition, double a, const Tensor& b) {
  const FunctionScope scope("where");
  return where(condition, scalar_like(b, a), b);
}

// -- questions --------------------------------------------------------------------

namespace {

Tensor always(const Tensor& x, bool answer) {
  return Tensor::full(x.shape(), answer, {.dtype = DType::boolean, .device = x.device()});
}

Tensor infinity_like(const Tensor& x) {
  return scalar_like(x, std::numeric_limits<double>::infinity());
}

}  // namespace

Tensor isnan(const Tensor& x) {
  const FunctionScope scope("isnan");
  return not_equal(x, x);
}

Tensor isinf(const Tensor& x) {
  const FunctionScope scope("isinf");
  if (!is_floating(x.dtype())) return always(x, false);
  return equal(abs(x.detach()), infinity_like(x));
}

Tensor isfinite(const Tensor& x) {
  const FunctionScope scope("isfinite");
  if (!is_floating(x.dtype())) return always(x, true);
  return less(abs(x.detach()), infinity_like(x));
}

Tensor logical_not(const Tensor& x) {
  const FunctionScope scope("logical_not");
  return equal(x, scalar_like(x, 0));
}

// Of booleans, false is less than true.
Tensor logical_and(const Tensor& a, const Tensor& b) {
  const FunctionScope scope("logical_and");
  return greater(a.to(DType::boolean), logical_not(b));
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  const FunctionScope scope("logical_or");
  return greater_equal(a.to(DType::boolean), logical_not(b));
}

Tensor logical_xor(const Tensor& a, const Tensor& b) {
  const FunctionScope scope("logical_xor");
  return equal(a.to(DType::boolean), logical_not(b));
}

}  // namespace adret
