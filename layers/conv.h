// Convolution layers of sequences, images and volumes. Weights and biases start as PyTorch's, see
// init::fan_in_uniform_. The constructors throw Error for sizes out of range, channels that groups
// does not divide, and Pad::same with a stride.
#pragma once

#include <adret/autograd/ops/conv.h>
#include <adret/layers/module.h>

namespace adret {

template <class Size>
struct ConvLayerOptions {
  Size kernel = 0;  // must be given
  Size stride = 1;
  PaddingOrSame<Size> padding = 0;
  Size dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;  // fused; none or relu
};
using Conv1dLayerOptions = ConvLayerOptions<int64_t>;
using Conv2dLayerOptions = ConvLayerOptions<Size2>;
using Conv3dLayerOptions = ConvLayerOptions<Size3>;

// (N, L, in_channels) -> (N, OL, out_channels), see conv1d. The weight is (out_channels, K,
// in_channels / groups).
class Conv1d : public Layer<Conv1d> {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, const Conv1dLayerOptions& options);
  Tensor forward(const Tensor& x);
  Conv1d rebuild() const { return Conv1d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const Conv1dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

// (N, H, W, in_channels) -> (N, OH, OW, out_channels), see conv2d. The weight is (out_channels, KH,
// KW, in_channels / groups).
class Conv2d : public Layer<Conv2d> {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, const Conv2dLayerOptions& options);
  Tensor forward(const Tensor& x);
  Conv2d rebuild() const { return Conv2d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const Conv2dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

// (N, D, H, W, in_channels) -> (N, OD, OH, OW, out_channels), see conv3d. The weight is
// (out_channels, KD, KH, KW, in_channels / groups).
class Conv3d : public Layer<Conv3d> {
 public:
  Conv3d(int64_t in_channels, int64_t out_channels, const Conv3dLayerOptions& options);
  Tensor forward(const Tensor& x);
  Conv3d rebuild() const { return Conv3d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const Conv3dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

template <class Size>
struct ConvTransposeLayerOptions {
  Size kernel = 0;  // must be given
  Size stride = 1, padding = 0, dilation = 1, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
};
using ConvTranspose1dLayerOptions = ConvTransposeLayerOptions<int64_t>;
using ConvTranspose2dLayerOptions = ConvTransposeLayerOptions<Size2>;
using ConvTranspose3dLayerOptions = ConvTransposeLayerOptions<Size3>;

// (N, L, in_channels) -> (N, OL, out_channels), see conv_transpose1d. The weight is (in_channels,
// K, out_channels / groups).
class ConvTranspose1d : public Layer<ConvTranspose1d> {
 public:
  ConvTranspose1d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose1dLayerOptions& options);
  Tensor forward(const Tensor& x);
  ConvTranspose1d rebuild() const { return ConvTranspose1d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const ConvTranspose1dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

// (N, H, W, in_channels) -> (N, OH, OW, out_channels), see conv_transpose2d. The weight is
// (in_channels, KH, KW, out_channels / groups).
class ConvTranspose2d : public Layer<ConvTranspose2d> {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose2dLayerOptions& options);
  Tensor forward(const Tensor& x);
  ConvTranspose2d rebuild() const { return ConvTranspose2d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const ConvTranspose2dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

// (N, D, H, W, in_channels) -> (N, OD, OH, OW, out_channels), see conv_transpose3d. The weight is
// (in_channels, KD, KH, KW, out_channels / groups).
class ConvTranspose3d : public Layer<ConvTranspose3d> {
 public:
  ConvTranspose3d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose3dLayerOptions& options);
  Tensor forward(const Tensor& x);
  ConvTranspose3d rebuild() const { return ConvTranspose3d(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const ConvTranspose3dLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

}  // namespace adret
