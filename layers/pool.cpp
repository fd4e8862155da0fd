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

template <class Self, class Size>
PoolLayer<Self, Size>::PoolLayer(const char* type, const Size& kernel,
                                 const PoolOptions<Size>& options)
    : kernel(kernel), options(checked(options, kernel, type)) {}

template <class Self, class Size>
AdaptivePoolLayer<Self, Size>::AdaptivePoolLayer(const char* type, const Size& size)
    : size(at_least(1, size, type, "size")) {}

template class PoolLayer<MaxPool1d, int64_t>;
template class PoolLayer<MaxPool2d, Size2>;
template class PoolLayer<MaxPool3d, Size3>;
template class PoolLayer<AvgPool1d, int64_t>;
template class PoolLayer<AvgPool2d, Size2>;
template class PoolLayer<AvgPool3d, Size3>;
template class AdaptivePoolLayer<AdaptiveMaxPool1d, int64_t>;
template class AdaptivePoolLayer<AdaptiveMaxPool2d, Size2>;
template class AdaptivePoolLayer<AdaptiveMaxPool3d, Size3>;
template class AdaptivePoolLayer<AdaptiveAvgPool1d, int64_t>;
template class AdaptivePoolLayer<AdaptiveAvgPool2d, Size2>;
template class AdaptivePoolLayer<AdaptiveAvgPool3d, Size3>;

}  // namespace adret
