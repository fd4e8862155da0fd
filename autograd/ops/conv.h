// Two-dimensional convolution (cross-correlation).
#pragma once

#include <adret/core/kernels/conv.h>
#include <adret/core/tensor.h>

namespace adret {

using kernels::Activation;

struct Conv2dOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  Activation activation = Activation::none;  // or relu
};

// x (N, H, W, C), weight (O, KH, KW, C / groups), bias (O) or undefined -> (N, OH, OW, O) with
// OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, rounded down.
// Throws ShapeError when the kernel does not fit, or channels, groups or sizes do not go together.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

}  // namespace adret
