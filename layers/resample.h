// Layers that give sequences, images and volumes other sizes.
#pragma once

#include <adret/autograd/ops/resample.h>
#include <adret/layers/module.h>

namespace adret {

template <class Size>
struct UpsampleLayerOptions {
  Size factor = 2;  // of the sides
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // see InterpolateOptions
};
using Upsample1dOptions = UpsampleLayerOptions<int64_t>;
using UpsampleOptions = UpsampleLayerOptions<Size2>;
using Upsample3dOptions = UpsampleLayerOptions<Size3>;

// The base of Upsample1d, Upsample and Upsample3d, which PyTorch tells apart by the input. The
// constructors throw Error for a factor below 1, and for align_corners with nearest.
template <class Self, class Size>
class UpsampleLayer : public Layer<Self> {
 public:
  Tensor forward(const Tensor& x);
  Self rebuild() const { return Self(options); }

  const UpsampleLayerOptions<Size> options;

 protected:
  // `type` is the name of Self, for errors.
  UpsampleLayer(const char* type, const UpsampleLayerOptions<Size>& options);
};

// (N, L, C) -> (N, L factor, C), see interpolate1d.
class Upsample1d : public UpsampleLayer<Upsample1d, int64_t> {
 public:
  explicit Upsample1d(const Upsample1dOptions& options = {})
      : UpsampleLayer("Upsample1d", options) {}
};
// (N, H, W, C) -> (N, H factor.h, W factor.w, C), see interpolate.
class Upsample : public UpsampleLayer<Upsample, Size2> {
 public:
  explicit Upsample(const UpsampleOptions& options = {}) : UpsampleLayer("Upsample", options) {}
};
// (N, D, H, W, C) -> (N, D factor.d, H factor.h, W factor.w, C), see interpolate3d.
class Upsample3d : public UpsampleLayer<Upsample3d, Size3> {
 public:
  explicit Upsample3d(const Upsample3dOptions& options = {})
      : UpsampleLayer("Upsample3d", options) {}
};

// (N, H, W, C factor^2) -> (N, H factor, W factor, C), see pixel_shuffle.
class PixelShuffle : public Layer<PixelShuffle> {
 public:
  explicit PixelShuffle(int64_t factor);  // throws Error for a factor below 1
  Tensor forward(const Tensor& x) { return pixel_shuffle(x, factor); }
  PixelShuffle rebuild() const { return PixelShuffle(factor); }

  const int64_t factor;
};

// (N, H factor, W factor, C) -> (N, H, W, C factor^2), see pixel_unshuffle.
class PixelUnshuffle : public Layer<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(int64_t factor);  // throws Error for a factor below 1
  Tensor forward(const Tensor& x) { return pixel_unshuffle(x, factor); }
  PixelUnshuffle rebuild() const { return PixelUnshuffle(factor); }

  const int64_t factor;
};

extern template class UpsampleLayer<Upsample1d, int64_t>;
extern template class UpsampleLayer<Upsample, Size2>;
extern template class UpsampleLayer<Upsample3d, Size3>;

}  // namespace adret
