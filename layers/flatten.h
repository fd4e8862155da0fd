// From images to the vectors that linear layers take.
#pragma once

#include <adret/autograd/ops/shape.h>
#include <adret/layers/module.h>

namespace adret {

// (N, H, W, C) -> (N, C H W) in PyTorch's order, volumes alike; (N, ...) -> (N, elements).
struct Flatten : Layer<Flatten> {
  Tensor forward(const Tensor& x) { return flatten(x); }
  Flatten rebuild() const { return Flatten(); }
};

}  // namespace adret
