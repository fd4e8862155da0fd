// Layers that give images other sizes.
#pragma once

#include <adret/autograd/ops/resample.h>
#include <adret/layers/module.h>

namespace adret {

struct UpsampleOptions {
  Size2 factor = 2;  // of the sides
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // see InterpolateOptions
};

// (N, H, W, C) -> (N, H factor.h, W factor.w, C), see interpolate.
class Upsample : public Layer<Upsample> {
 public:
  // Throws Error for a factor below 1, and for align_corners without bilinear.
  explicit Upsample(const UpsampleOptions& options = {});
  Tensor forward(const Tensor& x);
  Upsample rebuild() const { return Upsample(options); }

  const UpsampleOptions options;
};

// (N, H, W, C) -> (N, size.h, size.w, C) and the like, see adaptive_avg_pool2d. The constructors
// throw Error for a size below 1.
class AdaptiveAvgPool1d : public Layer<AdaptiveAvgPool1d> {
 public:
  explicit AdaptiveAvgPool1d(int64_t size);
  Tensor forward(const Tensor& x) { return adaptive_avg_pool1d(x, size); }
  AdaptiveAvgPool1d rebuild() const { return AdaptiveAvgPool1d(size); }

  const int64_t size;
};

class AdaptiveAvgPool2d : public Layer<AdaptiveAvgPool2d> {
 public:
  explicit AdaptiveAvgPool2d(Size2 size);
  Tensor forward(const Tensor& x) { return adaptive_avg_pool2d(x, size); }
  AdaptiveAvgPool2d rebuild() const { return AdaptiveAvgPool2d(size); }

  const Size2 size;
};

class AdaptiveAvgPool3d : public Layer<AdaptiveAvgPool3d> {
 public:
  explicit AdaptiveAvgPool3d(Size3 size);
  Tensor forward(const Tensor& x) { return adaptive_avg_pool3d(x, size); }
  AdaptiveAvgPool3d rebuild() const { return AdaptiveAvgPool3d(size); }

  const Size3 size;
};

// (N, H, W, C factor^2) -> (N, H factor, W factor, C), see pixel_shuffle.
class PixelShuffle : public Layer<PixelShuffle> {
 public:
  explicit PixelShuffle(int64_t factor);  // throws Error for a factor below 1
  Tensor forward(const Tensor& x) { return pixel_shuffle(x, factor); }
  PixelShuffle rebuild() const { return PixelShuffle(factor); }

  const int64_t factor;
};

}  // namespace adret
