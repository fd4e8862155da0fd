// Argument checks of the pooling layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/pool.h>
#include <fmt/core.h>

namespace adret {
namespace {

bool is_within_half(int64_t kernel, int64_t padding) { return 2 * padding <= kernel; }
bool is_within_half(Size2 kernel, Size2 padding) {
  return is_within_half(kernel.h, padding.h) && is_within_half(kernel.w, padding.w);
}
bool is_within_half(Size3 kernel, Size3 padding) {
  return is_within_half(kernel.d, padding.d) && is_within_half(kernel.plane(), padding.plane());
}

template <class Size>
const PoolOptions<Size>& checked(const PoolOptions<Size>& options, const Size& kernel,
                                 const char* layer) {
  using std::to_string;
  at_least(1, kernel, layer, "kernel");
  at_least(0, options.stride, layer, "stride");
  at_least(0, options.padding, layer, "padding");
  if (!is_within_half(kernel, options.padding)) {
    throw Error(fmt::format("[{}] padding is {}; it must be at most half the kernel {}", layer,
                            to_string(options.padding), to_string(kernel)));
  }
  return options;
}

}  // namespace

MaxPool1d::MaxPool1d(int64_t kernel, const Pool1dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "MaxPool1d")) {}

AvgPool1d::AvgPool1d(int64_t kernel, const Pool1dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "AvgPool1d")) {}

MaxPool2d::MaxPool2d(Size2 kernel, const Pool2dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "MaxPool2d")) {}

AvgPool2d::AvgPool2d(Size2 kernel, const Pool2dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "AvgPool2d")) {}

MaxPool3d::MaxPool3d(Size3 kernel, const Pool3dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "MaxPool3d")) {}

AvgPool3d::AvgPool3d(Size3 kernel, const Pool3dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "AvgPool3d")) {}

AdaptiveMaxPool1d::AdaptiveMaxPool1d(int64_t size)
    : size(at_least(1, size, "AdaptiveMaxPool1d", "size")) {}

AdaptiveMaxPool2d::AdaptiveMaxPool2d(Size2 size)
    : size(at_least(1, size, "AdaptiveMaxPool2d", "size")) {}

AdaptiveMaxPool3d::AdaptiveMaxPool3d(Size3 size)
    : size(at_least(1, size, "AdaptiveMaxPool3d", "size")) {}

}  // namespace adret
