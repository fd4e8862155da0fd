// Residual networks (He et al. 2016, arXiv:1512.03385), with torchvision's names.
#pragma once

#include <adret/layers/linear.h>
#include <adret/layers/models/blocks.h>
#include <adret/layers/sequential.h>

#include <array>

namespace adret {

// Two 3x3 convolutions: (N, H, W, in_channels) -> (N, OH, OW, channels); the stride is the first's.
class BasicBlock : public Layer<BasicBlock> {
 public:
  static constexpr int64_t expansion = 1;  // output channels over `channels`

  BasicBlock(int64_t in_channels, int64_t channels, int64_t stride = 1);
  Tensor forward(const Tensor& x);
  BasicBlock rebuild() const { return BasicBlock(in_channels, channels, stride); }

  const int64_t in_channels, channels, stride;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;
  Sequential* const downsample;  // null where the shortcut needs no projection
};

// A 3x3 convolution between 1x1 ones: (N, H, W, in_channels) -> (N, OH, OW, 4 channels). The stride
// is that of the 3x3, not of the first 1x1 as in the paper (torchvision's "v1.5").
class Bottleneck : public Layer<Bottleneck> {
 public:
  static constexpr int64_t expansion = 4;

  Bottleneck(int64_t in_channels, int64_t channels, int64_t stride = 1);
  Tensor forward(const Tensor& x);
  Bottleneck rebuild() const { return Bottleneck(in_channels, channels, stride); }

  const int64_t in_channels, channels, stride;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;
  Conv2d& conv3;
  BatchNorm2d& bn3;
  Sequential* const downsample;
};

// A column of the paper's table 1.
struct ResNetDepth {
  std::array<int64_t, 4> blocks;  // of layer1 to layer4
  bool bottleneck = false;
};

struct ResNetOptions {
  int64_t classes = 10;
  Stem stem = Stem::cifar;
};

// (N, H, W, 3) -> logits (N, classes), for any size of image. The cifar stem is one 3x3
// convolution, as in the ResNet-18 that is common on CIFAR-10; imagenet's a 7x7 one and max
// pooling, which together divide the size by 4.
class ResNet : public Layer<ResNet> {
 public:
  // Throws Error for depths and classes below 1.
  explicit ResNet(const ResNetDepth& depth, const ResNetOptions& options = {});
  Tensor forward(const Tensor& x);
  ResNet rebuild() const { return ResNet(depth, options); }

  const ResNetDepth depth;
  const ResNetOptions options;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Sequential &layer1, &layer2, &layer3, &layer4;
  Linear& fc;
};

inline ResNet resnet18(const ResNetOptions& options = {}) {
  return ResNet({.blocks = {2, 2, 2, 2}}, options);
}
inline ResNet resnet34(const ResNetOptions& options = {}) {
  return ResNet({.blocks = {3, 4, 6, 3}}, options);
}
inline ResNet resnet50(const ResNetOptions& options = {}) {
  return ResNet({.blocks = {3, 4, 6, 3}, .bottleneck = true}, options);
}

}  // namespace adret
