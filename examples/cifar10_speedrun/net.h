// The network of the CIFAR-10 speed run: a fixed whitening layer, three blocks of convolutions, a
// linear head (Jordan 2024, "94% on CIFAR-10 in 3.29 seconds on a single GPU").
#pragma once

#include <adret/adret.h>

namespace speedrun {

using namespace adret;

// Convolution, pooling, norm, GELU, convolution, norm, GELU.
struct Block : Layer<Block> {
  Block(int64_t in_channels, int64_t channels);
  Tensor forward(const Tensor& x);

  Conv2d& conv1;
  BatchNorm2d& norm1;
  Conv2d& conv2;
  BatchNorm2d& norm2;
};

struct Net : Layer<Net> {
  Net();
  // Images (N, 32, 32, 3), normalised -> logits (N, 10).
  Tensor forward(const Tensor& x);

  // Of images (N, H, W, 3), the principal axes of their patches, scaled to variance 1, and the same
  // with the other sign, become the filters of the first layer.
  void whiten(const Tensor& images);
  std::vector<std::shared_ptr<Parameter>> filters() const;  // of the blocks' convolutions
  std::vector<std::shared_ptr<Parameter>> norm_biases() const;

  static constexpr int64_t patch = 2, patch_size = patch * patch * 3;

  Conv2d& whitening = add("whitening", Conv2d(3, 2 * patch_size, {.kernel = patch}));
  Block& block1 = add("block1", Block(2 * patch_size, 64));
  Block& block2 = add("block2", Block(64, 256));
  Block& block3 = add("block3", Block(256, 256));
  Linear& head = add("head", Linear(256, 10, {.bias = false}));
};

}  // namespace speedrun
