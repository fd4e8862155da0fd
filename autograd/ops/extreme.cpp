// Extremes with their places.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

struct ExtremesBackward final : Node {
  ExtremesBackward(const char* function, const Tensor& indices, const Shape& shape, int dim)
      : function(function), indices(indices), shape(shape), dim(dim) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Shape kept = shape.with(dim, 1);
    const Tensor places = indices.unpack(*this).reshape(kept);
    return {sum_to_places(reshape(grads[0], kept.span()), {function, dim, places}, grad_buffer(0))};
  }
  const char* function;
  SavedTensor indices;
  Shape shape;
  int dim;
};

// What is asked for beside the places.
enum class Wanted { values, places };

Extremes find(const char* function, const Tensor& x, const AlongOptions& options, bool largest,
              Wanted wanted) {
  const FunctionScope scope(function);
  check::number(function, {"x", x});
  if (!options.dim) {
    Extremes all = find(function, x.reshape({-1}), {.dim = 0}, largest, wanted);
    if (options.keepdim) {
      Shape ones = x.shape();
      for (int d = 0; d < ones.rank(); ++d) ones = ones.with(d, 1);
      if (all.values.defined()) all.values = all.values.reshape(ones);
      all.indices = all.indices.reshape(ones);
    }
    return all;
  }
  const int dim = x.shape().resolve_dim(function, *options.dim);
  if (x.size(dim) == 0) {
    check::refuse(function, fmt::format("no elements to choose from in {}", to_string(x.shape())));
  }
  const Shape shape = options.keepdim ? x.shape().with(dim, 1) : x.shape().without(dim);
  if (x.dtype() == DType::u8) {
    Extremes y = find(function, x.to(DType::i32), options, largest, wanted);
    if (y.values.defined()) y.values = y.values.to(DType::u8);
    return y;
  }
  Extremes y;
  y.indices = Tensor::empty(shape, {.dtype = DType::i64, .device = x.device()});
  kernels::Extreme call{.x = x, .indices = y.indices, .dim = dim, .largest = largest};
  if (wanted == Wanted::values) {
    y.values = empty_like(x, shape);
    call.values = y.values;
  }
  run(call);
  if (wanted == Wanted::values) {
    record<ExtremesBackward>({y.values}, {x}, function, y.indices, x.shape(), dim);
  }
  return y;
}

}  // namespace

Extremes max_with_indices(const Tensor& x, const AlongOptions& options) {
  return find("max_with_indices", x, options, true, Wanted::values);
}
Extremes min_with_indices(const Tensor& x, const AlongOptions& options) {
  return find("min_with_indices", x, options, false, Wanted::values);
}
Tensor argmax(const Tensor& x, const AlongOptions& options) {
  return find("argmax", x, options, true, Wanted::places).indices;
}
Tensor argmin(const Tensor& x, const AlongOptions& options) {
  return find("argmin", x, options, false, Wanted::places).indices;
}

}  // namespace adret
