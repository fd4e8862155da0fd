// MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381), with torchvision's names.
#pragma once

#include <adret/layers/models/blocks.h>
#include <adret/layers/sequential.h>

namespace adret {

struct InvertedResidualOptions {
  int64_t stride = 1;
  int64_t expansion = 6;  // channels of the depthwise convolution over the input's
};

// A 1x1 convolution to more channels, a depthwise 3x3 one, and a 1x1 one back without activation;
// the input is added where the shapes agree: (N, H, W, in_channels) -> (N, OH, OW, channels).
class InvertedResidual : public Layer<InvertedResidual> {
 public:
  InvertedResidual(int64_t in_channels, int64_t channels,
                   const InvertedResidualOptions& options = {});
  Tensor forward(const Tensor& x);
  InvertedResidual rebuild() const { return InvertedResidual(in_channels, channels, options); }

  const int64_t in_channels, channels;
  const InvertedResidualOptions options;
  Sequential& conv;
};

struct MobileNetV2Options {
  int64_t classes = 10;
  double width = 1;  // multiplier of all channels, which stay multiples of 8
  Stem stem = Stem::cifar;
  double dropout = 0.2;  // before the last layer
};

// (N, H, W, 3) -> logits (N, classes). The last features have 1/32 of the image's size; with the
// cifar stem, where the first convolution and the first change of size have stride 1, 1/8.
class MobileNetV2 : public Layer<MobileNetV2> {
 public:
  // Throws Error for values out of range.
  explicit MobileNetV2(const MobileNetV2Options& options = {});
  Tensor forward(const Tensor& x);
  MobileNetV2 rebuild() const { return MobileNetV2(options); }

  const MobileNetV2Options options;
  Sequential& features;
  Sequential& classifier;
};

}  // namespace adret
