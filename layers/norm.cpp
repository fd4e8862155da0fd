// Batch normalisation layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/norm.h>
#include <fmt/core.h>

#include <type_traits>

namespace adret {
namespace {

// What a layer of this kind takes: ranks, and how they read.
struct Inputs {
  const char *layer, *layout;
  int least_rank, most_rank;
};
template <class Layer>
constexpr Inputs inputs_of() {
  if constexpr (std::is_same_v<Layer, BatchNorm1d>) {
    return {"BatchNorm1d", "samples (N, {0}) or (N, L, {0})", 2, 3};
  } else if constexpr (std::is_same_v<Layer, BatchNorm2d>) {
    return {"BatchNorm2d", "images (N, H, W, {})", 4, 4};
  } else {
    return {"BatchNorm3d", "volumes (N, D, H, W, {})", 5, 5};
  }
}

const BatchNormLayerOptions& checked(const BatchNormLayerOptions& options, const char* layer) {
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    throw Error(fmt::format("[{}] momentum is {}; it must lie in 0..1", layer, options.momentum));
  }
  check_epsilon(options.epsilon, layer);
  return options;
}

}  // namespace

template <class Self>
BatchNormLayer<Self>::BatchNormLayer(int64_t channels, const BatchNormLayerOptions& options)
    : channels(at_least(1, channels, inputs_of<Self>().layer, "channels")),
      options(checked(options, inputs_of<Self>().layer)),
      weight(this->parameter("weight", options.affine ? Tensor::ones({channels}) : Tensor())),
      bias(this->parameter("bias", options.affine ? Tensor::zeros({channels}) : Tensor())),
      running_mean(this->buffer("running_mean", Tensor::zeros({channels}))),
      running_var(this->buffer("running_var", Tensor::ones({channels}))),
      num_batches_tracked(
          this->buffer("num_batches_tracked", Tensor::zeros({}, {.dtype = DType::i64}))) {}

template <class Self>
Tensor BatchNormLayer<Self>::forward(const Tensor& x, const Tensor& residual) {
  constexpr Inputs inputs = inputs_of<Self>();
  if (x.rank() < inputs.least_rank || x.rank() > inputs.most_rank || x.size(-1) != channels) {
    throw ShapeError(fmt::format("[{}] wants {}, got {}", inputs.layer,
                                 fmt::format(fmt::runtime(inputs.layout), channels),
                                 to_string(x.shape())));
  }
  return batch_norm(for_normalization(running_mean, x), weight, bias, running_mean, running_var,
                    {.training = this->training(),
                     .momentum = options.momentum,
                     .num_batches_tracked = num_batches_tracked,
                     .epsilon = options.epsilon,
                     .residual = for_normalization(running_mean, residual),
                     .activation = options.activation});
}

template class BatchNormLayer<BatchNorm1d>;
template class BatchNormLayer<BatchNorm2d>;
template class BatchNormLayer<BatchNorm3d>;

}  // namespace adret
