// Layers that give images other sizes.
#include <adret/layers/check.h>
#include <adret/layers/resample.h>

namespace adret {

Upsample::Upsample(const UpsampleOptions& options) : options(options) {
  at_least(1, options.factor, "Upsample", "factor");
}

Tensor Upsample::forward(const Tensor& x) {
  if (x.rank() != 4) return interpolate(x, options.factor, {});  // which says what it wants
  return interpolate(x, {x.size(1) * options.factor.h, x.size(2) * options.factor.w},
                     {.mode = options.mode, .align_corners = options.align_corners});
}

PixelShuffle::PixelShuffle(int64_t factor)
    : factor(at_least(1, factor, "PixelShuffle", "factor")) {}

}  // namespace adret
