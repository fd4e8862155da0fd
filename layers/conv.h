// Convolution layers.
#pragma once

#include <adret/autograd/ops/conv.h>
#include <adret/layers/module.h>

namespace adret {

struct Conv2dLayerOptions {
  Size2 kernel;  // must be given
  Size2 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;  // fused; none or relu
};

// Two-dimensional convolution: (N, H, W, in_channels) -> (N, OH, OW, out_channels), see conv2d. The
// weight (out_channels, KH, KW, in_channels / groups) and bias start as PyTorch's, see
// init::fan_in_uniform_.
class Conv2d : public Layer<Conv2d> {
 public:
  // Throws Error for sizes out of range and channels that groups does not divide.
  Conv2d(int64_t in_channels, int64_t out_channels, const Conv2dLayerOptions& options);
  Tensor forward(const Tensor& x);
  Conv2d rebuild() const { return Conv2d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const Conv2dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

struct Conv1dLayerOptions {
  int64_t kernel = 0;  // must be given
  int64_t stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;  // fused; none or relu
};

// (N, L, in_channels) -> (N, OL, out_channels), see conv1d. The weight (out_channels, K,
// in_channels / groups) and bias start as PyTorch's.
class Conv1d : public Layer<Conv1d> {
 public:
  // Throws Error for sizes out of range and channels that groups does not divide.
  Conv1d(int64_t in_channels, int64_t out_channels, const Conv1dLayerOptions& options);
  Tensor forward(const Tensor& x);
  Conv1d rebuild() const { return Conv1d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const Conv1dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

struct ConvTranspose2dLayerOptions {
  Size2 kernel;  // must be given
  Size2 stride = 1, padding = 0, dilation = 1, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
};

// (N, H, W, in_channels) -> (N, OH, OW, out_channels), see conv_transpose2d. The weight
// (in_channels, KH, KW, out_channels / groups) and bias start as PyTorch's.
class ConvTranspose2d : public Layer<ConvTranspose2d> {
 public:
  // Throws Error for sizes out of range and channels that groups does not divide.
  ConvTranspose2d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose2dLayerOptions& options);
  Tensor forward(const Tensor& x);
  ConvTranspose2d rebuild() const { return ConvTranspose2d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const ConvTranspose2dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

}  // namespace adret
