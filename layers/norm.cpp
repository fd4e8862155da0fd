// Normalisation layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/norm.h>
#include <fmt/core.h>

namespace adret {
namespace {

const BatchNorm2dOptions& checked(const BatchNorm2dOptions& options) {
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    throw Error(fmt::format("[BatchNorm2d] momentum is {}; it must lie in 0..1", options.momentum));
  }
  if (!(options.epsilon >= 0)) {
    throw Error(
        fmt::format("[BatchNorm2d] epsilon is {}; it must not be negative", options.epsilon));
  }
  return options;
}

}  // namespace

BatchNorm2d::BatchNorm2d(int64_t channels, const BatchNorm2dOptions& options)
    : channels(at_least(1, channels, "BatchNorm2d", "channels")),
      options(checked(options)),
      weight(parameter("weight", options.affine ? Tensor::ones({channels}) : Tensor())),
      bias(parameter("bias", options.affine ? Tensor::zeros({channels}) : Tensor())),
      running_mean(buffer("running_mean", Tensor::zeros({channels}))),
      running_var(buffer("running_var", Tensor::ones({channels}))),
      num_batches_tracked(buffer("num_batches_tracked", Tensor::zeros({}, {.dtype = DType::i64}))) {
}

Tensor BatchNorm2d::forward(const Tensor& x, const Tensor& residual) {
  if (x.rank() != 4 || x.size(3) != channels) {
    throw ShapeError(fmt::format("[BatchNorm2d] wants images (N, H, W, {}), got {}", channels,
                                 to_string(x.shape())));
  }
  // 16-bit images meet f32 statistics; other dtypes must be equal.
  const bool half = size_of(x.dtype()) == 2 && running_mean.dtype() == DType::f32;
  const auto in_dtype = [&](const Tensor& image) {
    return half || !image.defined() ? image : in_dtype_of(running_mean, image);
  };
  return batch_norm(in_dtype(x), weight, bias, running_mean, running_var,
                    {.training = training(),
                     .momentum = options.momentum,
                     .num_batches_tracked = num_batches_tracked,
                     .epsilon = options.epsilon,
                     .residual = in_dtype(residual),
                     .activation = options.activation});
}

}  // namespace adret
