// A residual block with a gate, composed of layers and functions that are there.
#pragma once

#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/layers/conv.h>
#include <adret/layers/norm.h>

#include "activations.h"

namespace custom_layer {

// Images (N, H, W, channels) plus what a gated convolution makes of them (Dauphin et al. 2017,
// arXiv:1612.08083): half of its channels say how much of the other half comes through.
struct GatedResidual : Layer<GatedResidual> {
  const int64_t channels;
  BatchNorm2d& norm = add("norm", BatchNorm2d(channels));
  Conv2d& conv = add("conv", Conv2d(channels, 2 * channels, {.kernel = 3, .padding = 1}));

  explicit GatedResidual(int64_t channels) : channels(channels) {}
  Tensor forward(const Tensor& x) { return x + glu(conv(swish(norm(x)))); }
  GatedResidual rebuild() const { return GatedResidual(channels); }
};

}  // namespace custom_layer
