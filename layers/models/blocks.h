// What the convolutional models are built from, in the shorthand of their papers.
#pragma once

#include <adret/layers/conv.h>
#include <adret/layers/init.h>
#include <adret/layers/norm.h>

namespace adret {

// Where a network meets its images, when its paper's is for those of ImageNet.
enum class Stem {
  cifar,     // for images of 32x32: no early loss of resolution
  imagenet,  // as in the paper, for 224x224
};

namespace blocks {

// Convolutions that keep the size but for the stride; a norm behind them makes up for the bias.
inline Conv2d conv3x3(int64_t in, int64_t out, int64_t stride = 1, int64_t groups = 1) {
  return Conv2d(in, out,
                {.kernel = 3, .stride = stride, .padding = 1, .groups = groups, .bias = false});
}
inline Conv2d conv1x1(int64_t in, int64_t out, int64_t stride = 1) {
  return Conv2d(in, out, {.kernel = 1, .stride = stride, .bias = false});
}
inline BatchNorm2d batch_norm_relu(int64_t channels) {
  return BatchNorm2d(channels, {.activation = Activation::relu});
}

// Gives every convolution in the model Kaiming-normal weights, over its outputs as most of
// torchvision's models start, and biases of 0.
void init_convolutions_(Module& model, init::FanMode fan = init::FanMode::out);
// Gives every linear layer normal weights of deviation 0.01 and biases of 0.
void init_linear_(Module& model);

}  // namespace blocks
}  // namespace adret
