// Elements picked, placed and masked by indices.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

// -- checks -----------------------------------------------------------------------

// The dimension of x that the indices count along, its place from the front.
int check_indices(const char* function, const Tensor& x, int dim, const Tensor& indices) {
  check::same_device(function, {"x", x}, {"indices", indices});
  check::integer(function, {"indices", indices});
  const int resolved = x.shape().resolve_dim(function, dim);
  check::within(function, {"indices", indices}, x.size(resolved),
                fmt::format("dimension {} of x {}", resolved, to_string(x.shape())));
  return resolved;
}

// The same, of indices for each element.
int check_element_indices(const char* function, const Tensor& x, int dim, const Tensor& indices) {
  const int resolved = x.shape().resolve_dim(function, dim);
  if (indices.rank() != x.rank() ||
      indices.shape().with(resolved, 0) != x.shape().with(resolved, 0)) {
    check::refuse(function,
                  fmt::format("indices {} and x {} differ outside dimension {}",
                              to_string(indices.shape()), to_string(x.shape()), resolved));
  }
  return check_indices(function, x, dim, indices);
}

int check_row_indices(const char* function, const Tensor& x, int dim, const Tensor& indices) {
  check::rank(function, {"indices", indices}, 1, "(n)");
  return check_indices(function, x, dim, indices);
}

// -- scattering -------------------------------------------------------------------

// What goes to each place is added to x.
struct AddBackward final : Node {
  explicit AddBackward(const Places& places)
      : function(places.function), dim(places.dim), indices(places.indices) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) result[0] = grads[0];
    if (needs_gradient(1)) {
      result[1] = gather_places(grads[0], {function, dim, indices.unpack(*this)});
    }
    return result;
  }
  const char* function;
  int dim;
  SavedTensor indices;
};

Tensor add_to_places(const Tensor& x, const Tensor& source, const Places& places) {
  Tensor y = empty_like(x);
  run(Copy{.x = x, .y = y});
  run(Scatter{
      .x = source, .indices = places.indices, .y = y, .dim = places.dim, .mode = ScatterMode::add});
  record<AddBackward>({y}, {x, source}, places);
  return y;
}

// x with `source` written over it at the places.
Tensor written(const Tensor& x, const Tensor& source, int dim, const Tensor& indices) {
  Tensor y = empty_like(x);
  run(Copy{.x = x, .y = y});
  run(Scatter{.x = source, .indices = indices, .y = y, .dim = dim, .mode = ScatterMode::assign});
  return y;
}

// Which elements of the source stayed: those whose own number is found at their place.
Tensor last_ones(const Shape& x, int dim, const Tensor& indices) {
  const TensorOptions integers{.dtype = DType::i64, .device = indices.device()};
  const Tensor numbers = arange(0, double(indices.numel()), 1, integers).reshape(indices.shape());
  const Tensor there = written(Tensor::zeros(x, integers), numbers, dim, indices);
  return equal(gather_places(there, {"scatter", dim, indices}), numbers);
}

struct ScatterBackward final : Node {
  ScatterBackward(const Shape& x, int dim, const Tensor& indices)
      : x(x), dim(dim), indices(indices) {}
  const char* name() const override { return "scatter"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& to = indices.unpack(*this);
    const Tensor& dy = grads[0];
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      const Tensor zeros = Tensor::zeros(to.shape(), {.dtype = dy.dtype(), .device = dy.device()});
      result[0] = scatter(dy, dim, to, zeros);
    }
    if (needs_gradient(1)) {
      result[1] = where(last_ones(x, dim, to), gather_places(dy, {"scatter", dim, to}), 0);
    }
    return result;
  }
  Shape x;
  int dim;
  SavedTensor indices;
};

void check_source(const char* function, const Tensor& x, const Tensor& source,
                  const Shape& wanted) {
  check::alike(function, {"x", x}, {"source", source});
  check::shape(function, {"source", source}, wanted);
}

}  // namespace

// -- picking ----------------------------------------------------------------------

Tensor gather(const Tensor& x, int dim, const Tensor& indices) {
  const FunctionScope scope("gather");
  const int along = check_element_indices("gather", x, dim, indices);
  return gather_places(x, {"gather", along, indices});
}

Tensor index_select(const Tensor& x, int dim, const Tensor& indices) {
  const FunctionScope scope("index_select");
  const int along = check_row_indices("index_select", x, dim, indices);
  return gather_places(x, {"index_select", along, indices});
}

// -- placing ----------------------------------------------------------------------

Tensor scatter(const Tensor& x, int dim, const Tensor& indices, const Tensor& source) {
  const FunctionScope scope("scatter");
  const int along = check_element_indices("scatter", x, dim, indices);
  check_source("scatter", x, source, indices.shape());
  Tensor y = written(x, source, along, indices);
  record<ScatterBackward>({y}, {x, source}, x.shape(), along, indices);
  return y;
}

Tensor scatter_add(const Tensor& x, int dim, const Tensor& indices, const Tensor& source) {
  const FunctionScope scope("scatter_add");
  check::signed_number("scatter_add", {"x", x});
  const int along = check_element_indices("scatter_add", x, dim, indices);
  check_source("scatter_add", x, source, indices.shape());
  return add_to_places(x, source, {"scatter_add", along, indices});
}

Tensor index_add(const Tensor& x, int dim, const Tensor& indices, const Tensor& source) {
  const FunctionScope scope("index_add");
  check::signed_number("index_add", {"x", x});
  const int along = check_row_indices("index_add", x, dim, indices);
  check_source("index_add", x, source, x.shape().with(along, indices.numel()));
  return add_to_places(x, source, {"index_add", along, indices});
}

// -- masking ----------------------------------------------------------------------

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  const FunctionScope scope("masked_fill");
  check::dtype("masked_fill", {"mask", mask}, DType::boolean);
  if (broadcast("masked_fill", x.shape(), mask.shape()) != x.shape()) {
    check::refuse("masked_fill", fmt::format("mask {} does not stretch to x {}",
                                             to_string(mask.shape()), to_string(x.shape())));
  }
  return where(mask, value, x);
}

}  // namespace adret
