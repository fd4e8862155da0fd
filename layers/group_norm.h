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

struct InstanceNormOptions {
  double epsilon = 1e-5;
  bool affine = false;  // weight and bias
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;

// Normalises each channel of each sample over its places (Ulyanov et al. 2016). Like PyTorch's it
// has no parameters unless asked to, and keeps no running statistics. The layers below differ in
// the inputs they take.
template <class Self>
class InstanceNormLayer : public Layer<Self> {
 public:
  // Throws Error for no channels, and a negative epsilon.
  explicit InstanceNormLayer(int64_t channels, const InstanceNormOptions& options = {});
  // Throws ShapeError for other shapes, and a single place.
  Tensor forward(const Tensor& x);
  Self rebuild() const { return Self(channels, options); }

  const int64_t channels;
  const InstanceNormOptions options;
  Parameter& weight;
  Parameter& bias;

 private:
  bool is_normalization() const override { return true; }
};

// Of sequences (N, L, channels).
class InstanceNorm1d : public InstanceNormLayer<InstanceNorm1d> {
 public:
  using InstanceNormLayer::InstanceNormLayer;
};

// Of images (N, H, W, channels).
class InstanceNorm2d : public InstanceNormLayer<InstanceNorm2d> {
 public:
  using InstanceNormLayer::InstanceNormLayer;
};

// Of volumes (N, D, H, W, channels).
class InstanceNorm3d : public InstanceNormLayer<InstanceNorm3d> {
 public:
  using InstanceNormLayer::InstanceNormLayer;
};

extern template class InstanceNormLayer<InstanceNorm1d>;
extern template class InstanceNormLayer<InstanceNorm2d>;
extern template class InstanceNormLayer<InstanceNorm3d>;

}  // namespace adret
