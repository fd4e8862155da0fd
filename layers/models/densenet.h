// Densely connected networks (Huang et al. 2017, arXiv:1608.06993), with torchvision's names.
#pragma once

#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>
#include <adret/layers/models/blocks.h>
#include <adret/layers/sequential.h>

#include <array>

namespace adret {

struct DenseLayerOptions {
  int64_t growth = 32;  // channels that a layer adds
  int64_t bn_size = 4;  // channels of its 1x1 convolution over `growth`
  double dropout = 0;   // of what it adds
};

// Norm, 1x1 convolution, norm, 3x3 convolution, whose outputs stand behind the input's channels:
// (N, H, W, in_channels) -> (N, H, W, in_channels + growth).
class DenseLayer : public Layer<DenseLayer> {
 public:
  explicit DenseLayer(int64_t in_channels, const DenseLayerOptions& options = {});
  Tensor forward(const Tensor& x);
  DenseLayer rebuild() const { return DenseLayer(in_channels, options); }

  const int64_t in_channels;
  const DenseLayerOptions options;
  BatchNorm2d& norm1;
  Conv2d& conv1;
  BatchNorm2d& norm2;
  Conv2d& conv2;
  Dropout& drop;
};

// Layers in each of the four blocks, a column of the paper's table 1.
using DenseNetDepth = std::array<int64_t, 4>;

struct DenseNetOptions {
  int64_t classes = 10;
  int64_t growth = 32, bn_size = 4;  // as in DenseLayerOptions
  int64_t channels = 64;             // of the stem
  double dropout = 0;
  Stem stem = Stem::cifar;
};

// (N, H, W, 3) -> logits (N, classes), for any size of image that can be halved three times;
// between blocks channels are halved too ("DenseNet-BC"). The cifar stem is one 3x3 convolution;
// imagenet's a 7x7 one and max pooling, which together divide the size by 4.
class DenseNet : public Layer<DenseNet> {
 public:
  // Throws Error for values out of range.
  explicit DenseNet(const DenseNetDepth& depth, const DenseNetOptions& options = {});
  Tensor forward(const Tensor& x);
  DenseNet rebuild() const { return DenseNet(depth, options); }

  const DenseNetDepth depth;
  const DenseNetOptions options;
  Sequential& features;
  Linear& classifier;
};

inline DenseNet densenet121(const DenseNetOptions& options = {}) {
  return DenseNet({6, 12, 24, 16}, options);
}
inline DenseNet densenet169(const DenseNetOptions& options = {}) {
  return DenseNet({6, 12, 32, 32}, options);
}
inline DenseNet densenet201(const DenseNetOptions& options = {}) {
  return DenseNet({6, 12, 48, 32}, options);
}

}  // namespace adret
