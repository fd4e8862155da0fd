// Convolution layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/conv.h>
#include <adret/layers/init.h>
#include <fmt/core.h>

namespace adret {
namespace {

void check_divides(int64_t groups, int64_t channels, const char* which) {
  if (channels % groups == 0) return;
  throw Error(
      fmt::format("[Conv2d] {} is {}, which groups {} does not divide", which, channels, groups));
}

const Conv2dLayerOptions& checked(const Conv2dLayerOptions& options, int64_t in, int64_t out) {
  at_least(1, options.kernel, "Conv2d", "kernel");
  at_least(1, options.stride, "Conv2d", "stride");
  at_least(0, options.padding, "Conv2d", "padding");
  at_least(1, options.dilation, "Conv2d", "dilation");
  at_least(1, options.groups, "Conv2d", "groups");
  check_divides(options.groups, in, "in_channels");
  check_divides(options.groups, out, "out_channels");
  return options;
}

}  // namespace

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, const Conv2dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "Conv2d", "in_channels")),
      out_channels(at_least(1, out_channels, "Conv2d", "out_channels")),
      options(checked(options, in_channels, out_channels)),
      weight(parameter("weight",
                       Tensor::empty({out_channels, options.kernel.h, options.kernel.w,
                                      in_channels / options.groups}),
                       FileLayout::conv_weight)),
      bias(parameter("bias", options.bias ? Tensor::empty({out_channels}) : Tensor())) {
  init::fan_in_uniform_(weight, bias);
}

Tensor Conv2d::forward(const Tensor& x) {
  return conv2d(in_dtype_of(weight, x), weight, bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups,
                 .activation = options.activation});
}

}  // namespace adret
