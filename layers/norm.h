// Normalisation layers.
#pragma once

#include <adret/autograd/ops/norm.h>
#include <adret/layers/module.h>

namespace adret {

struct BatchNorm2dOptions {
  double momentum = 0.1;  // weight of a batch's statistics in the running ones, in 0..1
  double epsilon = 1e-5;
  bool affine = true;                        // weight and bias
  Activation activation = Activation::none;  // or relu; fused
};

// Normalises images (N, H, W, channels) per channel (Ioffe and Szegedy 2015): in training with the
// statistics of the batch, in evaluation with the running ones. Statistics and parameters stay in
// f32 when the model is converted to 16 bits.
class BatchNorm2d : public Layer<BatchNorm2d> {
 public:
  // Throws Error for values out of range.
  explicit BatchNorm2d(int64_t channels, const BatchNorm2dOptions& options = {});
  // A residual is added before the activation, in the same kernel. Throws ShapeError for other
  // shapes, and in training for a single value per channel.
  Tensor forward(const Tensor& x, const Tensor& residual = {});
  BatchNorm2d rebuild() const { return BatchNorm2d(channels, options); }

  const int64_t channels;
  const BatchNorm2dOptions options;
  Parameter& weight;
  Parameter& bias;
  Tensor& running_mean;
  Tensor& running_var;
  Tensor& num_batches_tracked;  // i64, of batches seen in training

 private:
  bool is_normalization() const override { return true; }
};

}  // namespace adret
