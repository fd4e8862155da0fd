// Gathering and scattering by indices that were checked, with their derivatives.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/places.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>

namespace adret {
namespace {

// Gathering and summing are each other's adjoint.
struct GatherBackward final : Node {
  explicit GatherBackward(const Places& places)
      : function(places.function), dim(places.dim), indices(places.indices) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {sum_to_places(grads[0], {function, dim, indices.unpack(*this)}, grad_buffer(0))};
  }
  const char* function;
  int dim;
  SavedTensor indices;
};

struct SumBackward final : Node {
  explicit SumBackward(const Places& places)
      : function(places.function), dim(places.dim), indices(places.indices) {}
  const char* name() const override { return function; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {gather_places(grads[0], {function, dim, indices.unpack(*this)})};
  }
  const char* function;
  int dim;
  SavedTensor indices;
};

}  // namespace

Tensor gather_places(const Tensor& x, const Places& places) {
  const Shape& indices = places.indices.shape();
  Tensor y =
      empty_like(x, x.shape().with(places.dim, indices[indices.rank() == 1 ? 0 : places.dim]));
  run(kernels::Gather{.x = x, .indices = places.indices, .y = y, .dim = places.dim});
  record_gathered(y, x, places);
  return y;
}

void record_gathered(const Tensor& y, const Tensor& x, const Places& places) {
  record<GatherBackward>({y}, {x}, places);
}

Tensor sum_to_places(const Tensor& x, const Places& places, const Tensor& y) {
  run(kernels::Scatter{.x = x,
                       .indices = places.indices,
                       .y = y,
                       .dim = places.dim,
                       .mode = kernels::ScatterMode::sum});
  record<SumBackward>({y}, {x}, places);
  return y;
}

}  // namespace adret
