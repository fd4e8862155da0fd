// Layers that give sequences, images and volumes other sizes.
#include <adret/autograd/ops/window.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/resample.h>
#include <fmt/core.h>

namespace adret {
namespace {

// More than interpolate takes where the product is.
int64_t enlarged(int64_t size, int64_t factor) {
  return size > largest_step / factor ? largest_step + 1 : size * factor;
}

// An input of another rank goes as it is to the function, which says what it wants.
Tensor enlarge(const Tensor& x, int64_t factor, const InterpolateOptions& options) {
  return interpolate1d(x, x.rank() == 3 ? enlarged(x.size(1), factor) : factor, options);
}
Tensor enlarge(const Tensor& x, Size2 factor, const InterpolateOptions& options) {
  if (x.rank() == 4) factor = each_direction(enlarged, inner_sizes<Size2>(x.shape()), factor);
  return interpolate(x, factor, options);
}
Tensor enlarge(const Tensor& x, Size3 factor, const InterpolateOptions& options) {
  if (x.rank() == 5) factor = each_direction(enlarged, inner_sizes<Size3>(x.shape()), factor);
  return interpolate3d(x, factor, options);
}

}  // namespace

template <class Self, class Size>
UpsampleLayer<Self, Size>::UpsampleLayer(const char* type,
                                         const UpsampleLayerOptions<Size>& options)
    : options(options) {
  at_least(1, options.factor, type, "factor");
  if (options.align_corners && options.mode == Interpolation::nearest) {
    throw Error(fmt::format("[{}] align_corners is of linear interpolation alone", type));
  }
}

template <class Self, class Size>
Tensor UpsampleLayer<Self, Size>::forward(const Tensor& x) {
  return enlarge(x, options.factor, {.mode = options.mode, .align_corners = options.align_corners});
}

template class UpsampleLayer<Upsample1d, int64_t>;
template class UpsampleLayer<Upsample, Size2>;
template class UpsampleLayer<Upsample3d, Size3>;

PixelShuffle::PixelShuffle(int64_t factor)
    : factor(at_least(1, factor, "PixelShuffle", "factor")) {}

PixelUnshuffle::PixelUnshuffle(int64_t factor)
    : factor(at_least(1, factor, "PixelUnshuffle", "factor")) {}

}  // namespace adret
