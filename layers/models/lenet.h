// LeNet-5 (LeCun et al. 1998) as it is trained today: max pooling and ReLU.
#pragma once

#include <adret/layers/conv.h>
#include <adret/layers/linear.h>

namespace adret {

// (N, 28, 28, 1) -> logits (N, 10).
struct LeNet : Layer<LeNet> {
  Conv2d& conv1 = add("conv1", Conv2d(1, 6, {.kernel = 5, .padding = 2}));
  Conv2d& conv2 = add("conv2", Conv2d(6, 16, {.kernel = 5}));
  Linear& fc1 = add("fc1", Linear(400, 120, {.activation = Activation::relu}));
  Linear& fc2 = add("fc2", Linear(120, 84, {.activation = Activation::relu}));
  Linear& fc3 = add("fc3", Linear(84, 10));

  Tensor forward(const Tensor& x);
  LeNet rebuild() const { return LeNet(); }
};

}  // namespace adret
