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

// (N, H, W, C factor^2) -> (N, H factor, W factor, C), see pixel_shuffle.
class PixelShuffle : public Layer<PixelShuffle> {
 public:
  explicit PixelShuffle(int64_t factor);  // throws Error for a factor below 1
  Tensor forward(const Tensor& x) { return pixel_shuffle(x, factor); }
  PixelShuffle rebuild() const { return PixelShuffle(factor); }

  const int64_t factor;
};

}  // namespace adret
