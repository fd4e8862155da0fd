// Argument checks of the pooling layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/pool.h>
#include <fmt/core.h>

namespace adret {
namespace {

const Pool2dOptions& checked(const Pool2dOptions& options, Size2 kernel, const char* layer) {
  at_least(1, kernel, layer, "kernel");
  at_least(0, options.stride, layer, "stride");
  at_least(0, options.padding, layer, "padding");
  if (2 * options.padding.h > kernel.h || 2 * options.padding.w > kernel.w) {
    throw Error(fmt::format("[{}] padding is {}; it must be at most half the kernel {}", layer,
                            to_string(options.padding), to_string(kernel)));
  }
  return options;
}

}  // namespace

MaxPool2d::MaxPool2d(Size2 kernel, const Pool2dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "MaxPool2d")) {}

AvgPool2d::AvgPool2d(Size2 kernel, const Pool2dOptions& options)
    : kernel(kernel), options(checked(options, kernel, "AvgPool2d")) {}

}  // namespace adret
