// Layers that give images other sizes.
#include <adret/autograd/ops/window.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/resample.h>

namespace adret {
namespace {

// More than interpolate takes where the product is.
int64_t enlarged(int64_t size, int64_t factor) {
  return size > largest_step / factor ? largest_step + 1 : size * factor;
}

}  // namespace

Upsample::Upsample(const UpsampleOptions& options) : options(options) {
  at_least(1, options.factor, "Upsample", "factor");
  if (options.align_corners && options.mode != Interpolation::bilinear) {
    throw Error("[Upsample] align_corners is of bilinear alone");
  }
}

Tensor Upsample::forward(const Tensor& x) {
  if (x.rank() != 4) return interpolate(x, options.factor, {});  // which says what it wants
  return interpolate(x,
                     {enlarged(x.size(1), options.factor.h), enlarged(x.size(2), options.factor.w)},
                     {.mode = options.mode, .align_corners = options.align_corners});
}

PixelShuffle::PixelShuffle(int64_t factor)
    : factor(at_least(1, factor, "PixelShuffle", "factor")) {}

}  // namespace adret
