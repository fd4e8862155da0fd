// A multilayer perceptron for MNIST.
#pragma once

#include <adret/layers/linear.h>

namespace adret {

// 784-256-10: (N, 28, 28, 1) -> logits (N, 10).
struct Mlp : Layer<Mlp> {
  Linear& fc1 = add("fc1", Linear(784, 256, {.activation = Activation::relu}));
  Linear& fc2 = add("fc2", Linear(256, 10));

  Tensor forward(const Tensor& x);
  Mlp rebuild() const { return Mlp(); }
};

}  // namespace adret
