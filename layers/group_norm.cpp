// Layers that normalise each sample by itself.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/group_norm.h>
#include <fmt/core.h>

#include <type_traits>

namespace adret {
namespace {

const Shape& checked(const Shape& shape, double epsilon, const char* layer) {
  if (shape.rank() == 0) {
    throw Error(fmt::format("[{}] the shape has no dimension; it must have one at least", layer));
  }
  for (int64_t size : shape) at_least(1, size, layer, "size");
  check_epsilon(epsilon, layer);
  return shape;
}

void check_trailing(const Tensor& x, const Shape& shape, const char* layer) {
  const int before = x.rank() - shape.rank();
  bool fits = before >= 0;
  for (int d = 0; fits && d < shape.rank(); ++d) fits = x.size(before + d) == shape[d];
  if (fits) return;
  throw ShapeError(fmt::format("[{}] wants (..., {}, got {}", layer, to_string(shape).substr(1),
                               to_string(x.shape())));
}

int64_t checked_channels(int64_t groups, int64_t channels) {
  at_least(1, channels, "GroupNorm", "channels");
  if (channels % at_least(1, groups, "GroupNorm", "groups") == 0) return channels;
  throw Error(fmt::format("[GroupNorm] {} groups do not divide {} channels", groups, channels));
}

// What an instance norm of this kind takes.
struct Instances {
  const char *layer, *layout;
  int rank;
};
template <class Layer>
constexpr Instances instances_of() {
  if constexpr (std::is_same_v<Layer, InstanceNorm1d>) {
    return {"InstanceNorm1d", "sequences (N, L", 3};
  } else if constexpr (std::is_same_v<Layer, InstanceNorm2d>) {
    return {"InstanceNorm2d", "images (N, H, W", 4};
  } else {
    return {"InstanceNorm3d", "volumes (N, D, H, W", 5};
  }
}

}  // namespace

// -- trailing dimensions -------------------------------------------------------------------------

LayerNorm::LayerNorm(const Shape& shape, const LayerNormLayerOptions& options)
    : shape(checked(shape, options.epsilon, "LayerNorm")),
      options(options),
      weight(parameter("weight", options.affine ? Tensor::ones(shape) : Tensor())),
      bias(parameter("bias", options.affine && options.bias ? Tensor::zeros(shape) : Tensor())) {}

Tensor LayerNorm::forward(const Tensor& x) {
  check_trailing(x, shape, "LayerNorm");
  return layer_norm(for_normalization(weight, x), weight, bias,
                    {.dims = shape.rank(), .epsilon = options.epsilon});
}

NormedSum LayerNorm::forward(const Tensor& x, const Tensor& residual) {
  check_trailing(x, shape, "LayerNorm");
  return layer_norm_of_sum(for_normalization(weight, x), for_normalization(weight, residual),
                           weight, bias, {.dims = shape.rank(), .epsilon = options.epsilon});
}

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& options)
    : shape(checked(shape, options.epsilon, "RMSNorm")),
      options(options),
      weight(parameter("weight", options.affine ? Tensor::ones(shape) : Tensor())) {}

Tensor RMSNorm::forward(const Tensor& x) {
  check_trailing(x, shape, "RMSNorm");
  return rms_norm(for_normalization(weight, x), weight,
                  {.dims = shape.rank(), .epsilon = options.epsilon});
}

NormedSum RMSNorm::forward(const Tensor& x, const Tensor& residual) {
  check_trailing(x, shape, "RMSNorm");
  return rms_norm_of_sum(for_normalization(weight, x), for_normalization(weight, residual), weight,
                         {.dims = shape.rank(), .epsilon = options.epsilon});
}

// -- channels ------------------------------------------------------------------------------------

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const GroupNormLayerOptions& options)
    : groups(groups),
      channels(checked_channels(groups, channels)),
      options(options),
      weight(parameter("weight", options.affine ? Tensor::ones({channels}) : Tensor())),
      bias(parameter("bias", options.affine ? Tensor::zeros({channels}) : Tensor())) {
  check_epsilon(options.epsilon, "GroupNorm");
}

Tensor GroupNorm::forward(const Tensor& x) {
  if (x.rank() < 2 || x.size(-1) != channels) {
    throw ShapeError(
        fmt::format("[GroupNorm] wants (N, ..., {}), got {}", channels, to_string(x.shape())));
  }
  return group_norm(for_normalization(weight, x), groups, weight, bias,
                    {.epsilon = options.epsilon});
}

template <class Self>
InstanceNormLayer<Self>::InstanceNormLayer(int64_t channels, const InstanceNormOptions& options)
    : channels(at_least(1, channels, instances_of<Self>().layer, "channels")),
      options(options),
      weight(this->parameter("weight", options.affine ? Tensor::ones({channels}) : Tensor())),
      bias(this->parameter("bias", options.affine ? Tensor::zeros({channels}) : Tensor())) {
  check_epsilon(options.epsilon, instances_of<Self>().layer);
}

template <class Self>
Tensor InstanceNormLayer<Self>::forward(const Tensor& x) {
  constexpr Instances instances = instances_of<Self>();
  if (x.rank() != instances.rank || x.size(-1) != channels) {
    throw ShapeError(fmt::format("[{}] wants {}, {}), got {}", instances.layer, instances.layout,
                                 channels, to_string(x.shape())));
  }
  return instance_norm(for_normalization(weight, x), weight, bias, {.epsilon = options.epsilon});
}

template class InstanceNormLayer<InstanceNorm1d>;
template class InstanceNormLayer<InstanceNorm2d>;
template class InstanceNormLayer<InstanceNorm3d>;

}  // namespace adret
