// Elements in order.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/ops/sort.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

// The first k along the dimension, outside the graph.
Sorted first_ones(const Tensor& x, int dim, int64_t k, bool descending) {
  const Shape shape = x.shape().with(dim, k);
  Sorted y{empty_like(x, shape), Tensor::empty(shape, {.dtype = DType::i64, .device = x.device()})};
  run(kernels::Sort{
      .x = x, .y = y.values, .indices = y.indices, .dim = dim, .descending = descending});
  return y;
}

}  // namespace

Sorted sort(const Tensor& x, const SortOptions& options) {
  const FunctionScope scope("sort");
  const int dim = x.shape().resolve_dim("sort", options.dim);
  const Sorted y = first_ones(x, dim, x.size(dim), options.descending);
  record_gathered(y.values, x, {"sort", dim, y.indices});
  return y;
}

Tensor argsort(const Tensor& x, const SortOptions& options) {
  const FunctionScope scope("argsort");
  const int dim = x.shape().resolve_dim("argsort", options.dim);
  return first_ones(x, dim, x.size(dim), options.descending).indices;
}

Sorted topk(const Tensor& x, int64_t k, const TopkOptions& options) {
  const FunctionScope scope("topk");
  const int dim = x.shape().resolve_dim("topk", options.dim);
  if (k < 0 || k > x.size(dim)) {
    check::refuse("topk", fmt::format("k is {}, dimension {} of x {} has {} elements", k, dim,
                                      to_string(x.shape()), x.size(dim)));
  }
  const Sorted y = first_ones(x, dim, k, options.largest);
  record_gathered(y.values, x, {"topk", dim, y.indices});
  return y;
}

}  // namespace adret
