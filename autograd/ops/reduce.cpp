// Reductions over dimensions, and the adjoint of broadcasting.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/reduce_parts.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {

Reduced Reduced::of(const char* function, const Shape& shape, const std::vector<int>& dims) {
  Reduced result;
  if (dims.empty()) result.dims = (1u << shape.rank()) - 1;
  for (int dim : dims) {
    const uint32_t bit = 1u << shape.resolve_dim(function, dim);
    if (result.dims & bit) {
      check::refuse(function,
                    fmt::format("dimension {} of {} is named twice", dim, to_string(shape)));
    }
    result.dims |= bit;
  }
  result.kept = result.squeezed = shape;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (!(result.dims >> i & 1)) continue;
    result.count *= shape[i];
    result.kept = result.kept.with(i, 1);
    result.squeezed = result.squeezed.without(i);
  }
  return result;
}

namespace {

using namespace kernels;

// Sum and mean.
struct SumBackward final : Node {
  SumBackward(ReduceOp op, const Shape& shape, const Reduced& reduced)
      : op(op), shape(shape), kept(reduced.kept), count(reduced.count) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor dy = op == ReduceOp::mean ? grads[0] / double(count) : grads[0];
    return {broadcast_to(reshape(dy, kept.span()), shape)};
  }
  ReduceOp op;
  Shape shape, kept;
  int64_t count;
};

// Max and min.
struct ExtremeBackward final : Node {
  ExtremeBackward(ReduceOp op, const Tensor& x, const Tensor& y, const Reduced& reduced)
      : op(op), x(x), y(y), kept(reduced.kept) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    const Tensor extreme = y.unpack(*this).detach().reshape(kept);
    const Tensor winners = equal(in.detach(), extreme).to(in.dtype());
    const Tensor ties = sum_to(winners, kept);
    return {winners * (reshape(grads[0], kept.span()) / ties)};
  }
  ReduceOp op;
  SavedTensor x;
  SavedOutput y;
  Shape kept;
};

// The product of the others is that of those before an element times that of those behind it: no
// division, and no case of its own for zeros. In f64, as one of the two may be large and the other
// small.
struct ProdBackward final : Node {
  ProdBackward(const Tensor& x, const Reduced& reduced)
      : x(x), dims(reduced.dims), kept(reduced.kept), count(reduced.count) {}
  const char* name() const override { return "prod"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    if (in.numel() == 0) return {in.detach()};
    std::vector<int> order, back(size_t(in.rank()));  // kept dimensions, then reduced ones
    for (const bool reduced : {false, true}) {
      for (int d = 0; d < in.rank(); ++d) {
        if ((dims >> d & 1) == uint32_t(reduced)) order.push_back(d);
      }
    }
    for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int(i);
    const Tensor turned = permute(in, order), rows = turned.to(DType::f64).reshape({-1, count});
    const Tensor others = cumprod(rows, 1, {.exclusive = true}) *
                          cumprod(rows, 1, {.reverse = true, .exclusive = true});
    const Tensor slopes = permute(others.reshape(turned.shape()), back).to(in.dtype());
    return {slopes * reshape(grads[0], kept.span())};
  }
  SavedTensor x;
  uint32_t dims;
  Shape kept;
  int64_t count;
};

void check_reduced(const char* function, ReduceOp op, const Tensor& x) {
  if (op == ReduceOp::mean) return check::floating(function, {"x", x});
  if ((op == ReduceOp::max || op == ReduceOp::min) && x.dtype() == DType::boolean) {
    check::refuse(function, fmt::format("x {} is boolean, wanted numbers; take {}",
                                        to_string(x.shape()), op == ReduceOp::max ? "any" : "all"));
  }
}

Tensor reduce(ReduceOp op, const Tensor& x, const ReduceOptions& options) {
  const FunctionScope scope(to_string(op));
  const char* function = to_string(op);
  check_reduced(function, op, x);
  const Reduced reduced = Reduced::of(function, x.shape(), options.dims);
  const bool extreme = op == ReduceOp::max || op == ReduceOp::min;
  if (extreme && reduced.count == 0) {
    check::refuse(function, fmt::format("no elements to choose from in {}", to_string(x.shape())));
  }
  const DType dtype = extreme || is_floating(x.dtype()) ? x.dtype() : DType::i64;
  Tensor y = Tensor::empty(options.keepdim ? reduced.kept : reduced.squeezed,
                           {.dtype = dtype, .device = x.device()});
  run(Reduce{.x = x, .y = y, .dims = reduced.dims, .op = op});
  if (extreme) {
    record<ExtremeBackward>({y}, {x}, op, x, y, reduced);
  } else if (op == ReduceOp::prod) {
    record<ProdBackward>({y}, {x}, x, reduced);
  } else {
    record<SumBackward>({y}, {x}, op, x.shape(), reduced);
  }
  return y;
}

struct SumToBackward final : Node {
  explicit SumToBackward(const Shape& shape) : shape(shape) {}
  const char* name() const override { return "sum_to"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {broadcast_to(grads[0], shape)};
  }
  Shape shape;
};

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& options) {
  return reduce(ReduceOp::sum, x, options);
}
Tensor mean(const Tensor& x, const ReduceOptions& options) {
  return reduce(ReduceOp::mean, x, options);
}
Tensor max(const Tensor& x, const ReduceOptions& options) {
  return reduce(ReduceOp::max, x, options);
}
Tensor min(const Tensor& x, const ReduceOptions& options) {
  return reduce(ReduceOp::min, x, options);
}

Tensor prod(const Tensor& x, const ReduceOptions& options) {
  return reduce(ReduceOp::prod, x, options);
}

Tensor any(const Tensor& x, const ReduceOptions& options) {
  const FunctionScope scope("any");
  return sum(x.to(DType::boolean), options).to(DType::boolean);
}
Tensor all(const Tensor& x, const ReduceOptions& options) {
  const FunctionScope scope("all");
  return logical_not(any(logical_not(x), options));
}
Tensor count_nonzero(const Tensor& x, const ReduceOptions& options) {
  const FunctionScope scope("count_nonzero");
  return sum(x.to(DType::boolean), options);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  const FunctionScope scope("sum_to");
  if (x.shape() == shape) return x;
  check::floating("sum_to", {"x", x});
  if (shape.rank() > x.rank() || broadcast("sum_to", x.shape(), shape) != x.shape()) {
    check::refuse("sum_to", fmt::format("{} does not broadcast to x {}", to_string(shape),
                                        to_string(x.shape())));
  }
  const int added = x.rank() - shape.rank();
  uint32_t dims = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < added || (shape[i - added] == 1 && x.size(i) != 1)) dims |= 1u << i;
  }
  Tensor y = empty_like(x, shape);
  run(Reduce{.x = x, .y = y, .dims = dims, .op = ReduceOp::sum});
  record<SumToBackward>({y}, {x}, x.shape());
  return y;
}

}  // namespace adret
