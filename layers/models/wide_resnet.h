// Wide residual networks for CIFAR (Zagoruyko and Komodakis 2016, arXiv:1605.07146).
#pragma once

#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>
#include <adret/layers/models/blocks.h>
#include <adret/layers/sequential.h>

namespace adret {

struct WideResNetOptions {
  int64_t depth = 28;  // convolutions in a line: 6 n + 4
  int64_t width = 10;  // times the channels of the original ResNet
  double dropout = 0;  // between the convolutions of a block
  int64_t classes = 10;
};

// Normalisation and ReLU come before the convolutions (He et al. 2016, arXiv:1603.05027):
// (N, H, W, in_channels) -> (N, OH, OW, channels). A projection takes what the first ones gave.
class WideBlock : public Layer<WideBlock> {
 public:
  WideBlock(int64_t in_channels, int64_t channels, int64_t stride = 1, double dropout = 0);
  Tensor forward(const Tensor& x);
  WideBlock rebuild() const { return WideBlock(in_channels, channels, stride, drop.p); }

  const int64_t in_channels, channels, stride;
  BatchNorm2d& bn1;
  Conv2d& conv1;
  BatchNorm2d& bn2;
  Dropout& drop;
  Conv2d& conv2;
  Conv2d* const shortcut;  // null where the block keeps the shape
};

// (N, H, W, 3) -> logits (N, classes); WRN-28-10 is {.depth = 28, .width = 10}.
class WideResNet : public Layer<WideResNet> {
 public:
  // Throws Error for a depth that is not 6 n + 4, and for other values out of range.
  explicit WideResNet(const WideResNetOptions& options = {});
  Tensor forward(const Tensor& x);
  WideResNet rebuild() const { return WideResNet(options); }

  const WideResNetOptions options;
  Conv2d& conv1;
  Sequential &layer1, &layer2, &layer3;
  BatchNorm2d& bn1;
  Linear& fc;
};

}  // namespace adret
