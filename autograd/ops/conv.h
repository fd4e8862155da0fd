// Convolutions (cross-correlations) and transposed ones, of sequences, images and volumes.
#pragma once

#include <adret/core/kernels/conv.h>
#include <adret/core/size3.h>
#include <adret/core/tensor.h>

#include <concepts>

namespace adret {

using kernels::Activation;

// Pad::same: zeros around the input so that the output has its size, dilation (K - 1) in each
// direction, the odd one behind. Wants a stride of 1.
enum class Pad { same };

// How many zeros a convolution puts at both ends of each direction, or Pad::same: 1, {1, 2}.
template <class Size>
struct PaddingOrSame {
  Size size;
  bool is_same = false;

  constexpr PaddingOrSame(Pad) : size(0), is_same(true) {}
  constexpr PaddingOrSame(Size size) : size(size) {}
  template <class... Sizes>
  requires((std::integral<Sizes> && ...) &&
           std::constructible_from<Size, Sizes...>) constexpr PaddingOrSame(Sizes... sizes)
      : size(sizes...) {}
};

template <class Size>
struct ConvOptions {
  Size stride = 1;
  PaddingOrSame<Size> padding = 0;
  Size dilation = 1;
  int64_t groups = 1;
  Activation activation = Activation::none;  // or relu
};
using Conv1dOptions = ConvOptions<int64_t>;
using Conv2dOptions = ConvOptions<Size2>;
using Conv3dOptions = ConvOptions<Size3>;

template <class Size>
struct ConvTransposeOptions {
  Size stride = 1, padding = 0, dilation = 1;
  Size output_padding = 0;  // below the stride; added to the output size behind
  int64_t groups = 1;
};
using ConvTranspose1dOptions = ConvTransposeOptions<int64_t>;
using ConvTranspose2dOptions = ConvTransposeOptions<Size2>;
using ConvTranspose3dOptions = ConvTransposeOptions<Size3>;

// -- of images -----------------------------------------------------------------------

// x (N, H, W, C), weight (O, KH, KW, C / groups), bias (O) or undefined -> (N, OH, OW, O) with
// OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, rounded down.
// Throws ShapeError when the kernel does not fit, channels, groups or sizes do not go together, or
// Pad::same meets a stride.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv2dOptions& options = {});

// What conv2d's gradient of its input is: x (N, H, W, I), weight (I, KH, KW, O / groups), bias (O)
// or undefined -> (N, OH, OW, O) with OH = (H - 1) stride - 2 padding + dilation (KH - 1) +
// output_padding + 1 (Zeiler et al. 2010). Throws ShapeError as conv2d.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose2dOptions& options = {});

// -- of sequences: as of images of one row ---------------------------------------------

// x (N, L, C), weight (O, K, C / groups), bias (O) or undefined -> (N, OL, O).
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv1dOptions& options = {});

// x (N, L, I), weight (I, K, O / groups), bias (O) or undefined -> (N, OL, O).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose1dOptions& options = {});

// -- of volumes ------------------------------------------------------------------------

// x (N, D, H, W, C), weight (O, KD, KH, KW, C / groups), bias (O) or undefined -> (N, OD, OH, OW,
// O), sizes as in conv2d. What x becomes for it, KD times as large, lives as long as the graph.
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const Conv3dOptions& options = {});

// x (N, D, H, W, I), weight (I, KD, KH, KW, O / groups), bias (O) or undefined -> (N, OD, OH, OW,
// O), sizes as in conv_transpose2d.
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTranspose3dOptions& options = {});

}  // namespace adret
