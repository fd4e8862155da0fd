// A residual network for CIFAR-10 that a CPU trains in minutes.
#pragma once

#include <adret/layers/models/resnet.h>

namespace adret {

struct TinyResNetOptions {
  int64_t width = 16;  // channels of the first convolution; eight times as many at the end
  int64_t classes = 10;
};

// (N, H, W, 3) -> logits (N, classes). A 3x3 convolution, three more that double the channels, each
// followed by max pooling, and a residual block behind the first and the last of them: 24 million
// multiply-adds for an image of 32x32, 413 thousand parameters.
class TinyResNet : public Layer<TinyResNet> {
 public:
  // Throws Error for values below 1.
  explicit TinyResNet(const TinyResNetOptions& options = {});
  Tensor forward(const Tensor& x);
  TinyResNet rebuild() const { return TinyResNet(options); }

  const TinyResNetOptions options;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;
  BasicBlock& block2;
  Conv2d& conv3;
  BatchNorm2d& bn3;
  Conv2d& conv4;
  BatchNorm2d& bn4;
  BasicBlock& block4;
  Linear& fc;
};

}  // namespace adret
