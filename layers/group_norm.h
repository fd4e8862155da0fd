// Layers that normalise each sample by itself. Their parameters stay in f32 when the model is
// converted to 16 bits.
#pragma once

#include <adret/autograd/ops/group_norm.h>
#include <adret/layers/module.h>

namespace adret {

struct LayerNormLayerOptions {
  double epsilon = 1e-5;
  bool affine = true;  // a weight, and a bias
  bool bias = true;    // false: the weight alone
};

// Normalises over the trailing dimensions `shape` (Ba et al. 2016); a single size is that of the
// last one.
class LayerNorm : public Layer<LayerNorm> {
 public:
  // Throws Error for no dimension, a size below 1, and a negative epsilon.
  explicit LayerNorm(const Shape& shape, const LayerNormLayerOptions& options = {});
  explicit LayerNorm(int64_t size, const LayerNormLayerOptions& options = {})
      : LayerNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x);
  // x + residual and the normalised sum, in one kernel each way.
  NormedSum forward(const Tensor& x, const Tensor& residual);
  LayerNorm rebuild() const { return LayerNorm(shape, options); }

  const Shape shape;
  const LayerNormLayerOptions options;
  Parameter& weight;
  Parameter& bias;

 private:
  bool is_normalization() const override { return true; }
};

struct RMSNormOptions {
  double epsilon = 1e-5;
  bool affine = true;  // a weight
};

// Divides by the root of the mean square over the trailing dimensions `shape` (Zhang and Sennrich
// 2019).
class RMSNorm : public Layer<RMSNorm> {
 public:
  // As LayerNorm's.
  explicit RMSNorm(const Shape& shape, const RMSNormOptions& options = {});
  explicit RMSNorm(int64_t size, const RMSNormOptions& options = {})
      : RMSNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x);
  NormedSum forward(const Tensor& x, const Tensor& residual);
  RMSNorm rebuild() const { return RMSNorm(shape, options); }

  const Shape shape;
  const RMSNormOptions options;
  Parameter& weight;

 private:
  bool is_normalization() const override { return true; }
};

struct GroupNormLayerOptions {
  double epsilon = 1e-5;
  bool affine = true;  // weight and bias
};

// Normalises x (N, ..., channels) over its places and each group of neighbouring channels (Wu and
// He 2018).
class GroupNorm : public Layer<GroupNorm> {
 public:
  // Throws Error unless the groups divide the channels.
  GroupNorm(int64_t groups, int64_t channels, const GroupNormLayerOptions& options = {});
  Tensor forward(const Tensor& x);
  GroupNorm rebuild() const { return GroupNorm(groups, channels, options); }

  const int64_t groups, channels;
  const GroupNormLayerOptions options;
  Parameter& weight;
  Parameter& bias;

 private:
  bool is_normalization() const override { return true; }
};

struct InstanceNorm2dOptions {
  double epsilon = 1e-5;
  bool affine = false;  // weight and bias
};

// Normalises images (N, H, W, channels) over their places, each channel by itself (Ulyanov et al.
// 2016). Like PyTorch's it has no parameters unless asked to, and keeps no running statistics.
class InstanceNorm2d : public Layer<InstanceNorm2d> {
 public:
  explicit InstanceNorm2d(int64_t channels, const InstanceNorm2dOptions& options = {});
  Tensor forward(const Tensor& x);
  InstanceNorm2d rebuild() const { return InstanceNorm2d(channels, options); }

  const int64_t channels;
  const InstanceNorm2dOptions options;
  Parameter& weight;
  Parameter& bias;

 private:
  bool is_normalization() const override { return true; }
};

}  // namespace adret
