// One dimension as several.
#include <adret/core/error.h>
#include <adret/layers/flatten.h>
#include <fmt/core.h>

namespace adret {

Unflatten::Unflatten(int dim, const Shape& sizes) : dim(dim), sizes(sizes) {
  if (sizes.rank() == 0) throw Error("[Unflatten] there are no sizes; give one at least");
}

Tensor Unflatten::forward(const Tensor& x) {
  const int at = x.shape().resolve_dim("Unflatten", dim);
  if (sizes.numel() != x.size(at)) {
    throw ShapeError(fmt::format("[Unflatten] dimension {} of {} cannot be {}", dim,
                                 to_string(x.shape()), to_string(sizes)));
  }
  Shape shape = x.shape().without(at);
  for (int i = 0; i < sizes.rank(); ++i) shape = shape.inserted(at + i, sizes[i]);
  return x.reshape(shape);
}

}  // namespace adret
