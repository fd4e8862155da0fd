// Convolutions (cross-correlations) and transposed ones, of images and of sequences.
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

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  Activation activation = Activation::none;  // or relu
};

// x (N, L, C), weight (O, K, C / groups), bias (O) or undefined -> (N, OL, O); as conv2d of images
// of one row.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

struct ConvTranspose2dOptions {
  Size2 stride = 1, padding = 0, dilation = 1;
  Size2 output_padding = 0;  // below the stride; added to the output size behind
  int64_t groups = 1;
};

// What conv2d's gradient of its input is: x (N, H, W, I), weight (I, KH, KW, O / groups), bias (O)
// or undefined -> (N, OH, OW, O) with OH = (H - 1) stride - 2 padding + dilation (KH - 1) +
// output_padding + 1 (Zeiler et al. 2010). Throws ShapeError as conv2d.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

struct ConvTranspose1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t output_padding = 0;
  int64_t groups = 1;
};

// x (N, L, I), weight (I, K, O / groups), bias (O) or undefined -> (N, OL, O).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});

}  // namespace adret
