// The network of PyTorch's own MNIST example: two convolutions with dropout.
#pragma once

#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>

namespace adret {

// (N, 28, 28, 1) -> logits (N, 10).
struct MnistCnn : Layer<MnistCnn> {
  Conv2d& conv1 = add("conv1", Conv2d(1, 32, {.kernel = 3, .activation = Activation::relu}));
  Conv2d& conv2 = add("conv2", Conv2d(32, 64, {.kernel = 3}));
  Dropout& dropout1 = add("dropout1", Dropout(0.25));
  Dropout& dropout2 = add("dropout2", Dropout(0.5));
  Linear& fc1 = add("fc1", Linear(9216, 128, {.activation = Activation::relu}));
  Linear& fc2 = add("fc2", Linear(128, 10));

  Tensor forward(const Tensor& x);
  MnistCnn rebuild() const { return MnistCnn(); }
};

}  // namespace adret
