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

// The base of Conv1d, Conv2d and Conv3d.
template <class Self, class Size>
class ConvLayer : public Layer<Self> {
 public:
  Tensor forward(const Tensor& x);
  Self rebuild() const { return Self(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const ConvLayerOptions<Size> options;
  Parameter& weight;
  Parameter& bias;

 protected:
  // `type` is the name of Self, for errors.
  ConvLayer(const char* type, int64_t in_channels, int64_t out_channels,
            const ConvLayerOptions<Size>& options);
};

// (N, L, in_channels) -> (N, OL, out_channels), see conv1d. The weight is (out_channels, K,
// in_channels / groups).
class Conv1d : public ConvLayer<Conv1d, int64_t> {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, const Conv1dLayerOptions& options)
      : ConvLayer("Conv1d", in_channels, out_channels, options) {}
};
// (N, H, W, in_channels) -> (N, OH, OW, out_channels), see conv2d. The weight is (out_channels, KH,
// KW, in_channels / groups).
class Conv2d : public ConvLayer<Conv2d, Size2> {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, const Conv2dLayerOptions& options)
      : ConvLayer("Conv2d", in_channels, out_channels, options) {}
};
// (N, D, H, W, in_channels) -> (N, OD, OH, OW, out_channels), see conv3d. The weight is
// (out_channels, KD, KH, KW, in_channels / groups).
class Conv3d : public ConvLayer<Conv3d, Size3> {
 public:
  Conv3d(int64_t in_channels, int64_t out_channels, const Conv3dLayerOptions& options)
      : ConvLayer("Conv3d", in_channels, out_channels, options) {}
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

// The base of ConvTranspose1d, ConvTranspose2d and ConvTranspose3d.
template <class Self, class Size>
class ConvTransposeLayer : public Layer<Self> {
 public:
  Tensor forward(const Tensor& x);
  Self rebuild() const { return Self(in_channels, out_channels, options); }

  const int64_t in_channels, out_channels;
  const ConvTransposeLayerOptions<Size> options;
  Parameter& weight;
  Parameter& bias;

 protected:
  // `type` is the name of Self, for errors.
  ConvTransposeLayer(const char* type, int64_t in_channels, int64_t out_channels,
                     const ConvTransposeLayerOptions<Size>& options);
};

// (N, L, in_channels) -> (N, OL, out_channels), see conv_transpose1d. The weight is (in_channels,
// K, out_channels / groups).
class ConvTranspose1d : public ConvTransposeLayer<ConvTranspose1d, int64_t> {
 public:
  ConvTranspose1d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose1dLayerOptions& options)
      : ConvTransposeLayer("ConvTranspose1d", in_channels, out_channels, options) {}
};
// (N, H, W, in_channels) -> (N, OH, OW, out_channels), see conv_transpose2d. The weight is
// (in_channels, KH, KW, out_channels / groups).
class ConvTranspose2d : public ConvTransposeLayer<ConvTranspose2d, Size2> {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose2dLayerOptions& options)
      : ConvTransposeLayer("ConvTranspose2d", in_channels, out_channels, options) {}
};
// (N, D, H, W, in_channels) -> (N, OD, OH, OW, out_channels), see conv_transpose3d. The weight is
// (in_channels, KD, KH, KW, out_channels / groups).
class ConvTranspose3d : public ConvTransposeLayer<ConvTranspose3d, Size3> {
 public:
  ConvTranspose3d(int64_t in_channels, int64_t out_channels,
                  const ConvTranspose3dLayerOptions& options)
      : ConvTransposeLayer("ConvTranspose3d", in_channels, out_channels, options) {}
};

extern template class ConvLayer<Conv1d, int64_t>;
extern template class ConvLayer<Conv2d, Size2>;
extern template class ConvLayer<Conv3d, Size3>;
extern template class ConvTransposeLayer<ConvTranspose1d, int64_t>;
extern template class ConvTransposeLayer<ConvTranspose2d, Size2>;
extern template class ConvTransposeLayer<ConvTranspose3d, Size3>;

}  // namespace adret
