// A network for MNIST of this folder's layers.
#pragma once

#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/shape.h>

#include "activations.h"
#include "blur.h"
#include "fake_quantize.h"
#include "gated_residual.h"

namespace custom_layer {

// (N, 28, 28, 1) -> logits (N, 10).
struct Network : Layer<Network> {
  Conv2d& conv = add("conv", Conv2d(1, 16, {.kernel = 5, .padding = 2}));
  LearnableSwish& activation = add("activation", LearnableSwish(16));
  GatedResidual& block1 = add("block1", GatedResidual(16));
  GatedResidual& block2 = add("block2", GatedResidual(16));
  FakeQuantLinear& fc1 = add("fc1", FakeQuantLinear(7 * 7 * 16, 128, {.bits = 4}));
  FakeQuantLinear& fc2 = add("fc2", FakeQuantLinear(128, 10, {.bits = 4}));

  Tensor forward(const Tensor& x) {
    Tensor h = max_pool2d(blur(activation(conv(x))), 2);
    h = max_pool2d(blur(block1(h)), 2);
    return fc2(swish(fc1(flatten(block2(h)))));
  }
  Network rebuild() const { return Network(); }
};

}  // namespace custom_layer
