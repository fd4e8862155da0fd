// Batch normalisation layers.
#pragma once

#include <adret/autograd/ops/norm.h>
#include <adret/layers/module.h>

namespace adret {

struct BatchNormLayerOptions {
  double momentum = 0.1;  // weight of a batch's statistics in the running ones, in 0..1
  double epsilon = 1e-5;
  bool affine = true;                        // weight and bias
  Activation activation = Activation::none;  // or relu; fused
};
using BatchNorm1dOptions = BatchNormLayerOptions;
using BatchNorm2dOptions = BatchNormLayerOptions;
using BatchNorm3dOptions = BatchNormLayerOptions;

// Normalises the last dimension's channels (Ioffe and Szegedy 2015): in training with the
// statistics of the batch, in evaluation with the running ones. Statistics and parameters stay in
// f32 when the model is converted to 16 bits. The layers below differ in the inputs they take.
template <class Self>
class BatchNormLayer : public Layer<Self> {
 public:
  // Throws Error for values out of range.
  explicit BatchNormLayer(int64_t channels, const BatchNormLayerOptions& options = {});
  // A residual is added before the activation, in the same kernel. Throws ShapeError for other
  // shapes, and in training for a single value per channel.
  Tensor forward(const Tensor& x, const Tensor& residual = {});
  Self rebuild() const { return Self(channels, options); }

  const int64_t channels;
  const BatchNormLayerOptions options;
  Parameter& weight;
  Parameter& bias;
  Tensor& running_mean;
  Tensor& running_var;
  Tensor& num_batches_tracked;  // i64, of batches seen in training

 private:
  bool is_normalization() const override { return true; }
};

// Of samples (N, channels) or sequences (N, L, channels).
class BatchNorm1d : public BatchNormLayer<BatchNorm1d> {
 public:
  using BatchNormLayer::BatchNormLayer;
};

// Of images (N, H, W, channels).
class BatchNorm2d : public BatchNormLayer<BatchNorm2d> {
 public:
  using BatchNormLayer::BatchNormLayer;
};

// Of volumes (N, D, H, W, channels).
class BatchNorm3d : public BatchNormLayer<BatchNorm3d> {
 public:
  using BatchNormLayer::BatchNormLayer;
};

extern template class BatchNormLayer<BatchNorm1d>;
extern template class BatchNormLayer<BatchNorm2d>;
extern template class BatchNormLayer<BatchNorm3d>;

}  // namespace adret
