// Convolution layers.
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/conv.h>
#include <adret/layers/init.h>
#include <fmt/core.h>

#include <utility>

namespace adret {
namespace {

// What all of them ask of their options.
template <class Options>
void check_common(const char* layer, const Options& options, int64_t in, int64_t out) {
  at_least(1, options.kernel, layer, "kernel");
  at_least(1, options.stride, layer, "stride");
  at_least(1, options.dilation, layer, "dilation");
  at_least(1, options.groups, layer, "groups");
  for (const auto& [channels, which] : {std::pair(in, "in_channels"), {out, "out_channels"}}) {
    if (channels % options.groups == 0) continue;
    throw Error(fmt::format("[{}] {} is {}, which groups {} does not divide", layer, which,
                            channels, options.groups));
  }
}

template <class Size>
const ConvLayerOptions<Size>& checked(const char* layer, const ConvLayerOptions<Size>& options,
                                      int64_t in, int64_t out) {
  check_common(layer, options, in, out);
  at_least(0, options.padding.size, layer, "padding");
  if (options.padding.is_same && options.stride != Size(1)) {
    throw Error(fmt::format("[{}] padding same wants a stride of 1", layer));
  }
  return options;
}

template <class Size>
const ConvTransposeLayerOptions<Size>& checked(const char* layer,
                                               const ConvTransposeLayerOptions<Size>& options,
                                               int64_t in, int64_t out) {
  check_common(layer, options, in, out);
  at_least(0, options.padding, layer, "padding");
  at_least(0, options.output_padding, layer, "output_padding");
  return options;
}

// Both for channels `first` outside and `last` inside.
Tensor weight_of(int64_t first, int64_t kernel, int64_t last) {
  return Tensor::empty({first, kernel, last});
}
Tensor weight_of(int64_t first, Size2 kernel, int64_t last) {
  return Tensor::empty({first, kernel.h, kernel.w, last});
}
Tensor weight_of(int64_t first, Size3 kernel, int64_t last) {
  return Tensor::empty({first, kernel.d, kernel.h, kernel.w, last});
}

Tensor bias_of(bool bias, int64_t channels) { return bias ? Tensor::empty({channels}) : Tensor(); }

}  // namespace

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, const Conv1dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "Conv1d", "in_channels")),
      out_channels(at_least(1, out_channels, "Conv1d", "out_channels")),
      options(checked("Conv1d", options, in_channels, out_channels)),
      weight(parameter("weight",
                       weight_of(out_channels, options.kernel, in_channels / options.groups),
                       FileLayout::conv_weight)),
      bias(parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor Conv1d::forward(const Tensor& x) {
  return conv1d(in_dtype_of(weight, x), weight, bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups,
                 .activation = options.activation});
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, const Conv2dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "Conv2d", "in_channels")),
      out_channels(at_least(1, out_channels, "Conv2d", "out_channels")),
      options(checked("Conv2d", options, in_channels, out_channels)),
      weight(parameter("weight",
                       weight_of(out_channels, options.kernel, in_channels / options.groups),
                       FileLayout::conv_weight)),
      bias(parameter("bias", bias_of(options.bias, out_channels))) {
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

Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, const Conv3dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "Conv3d", "in_channels")),
      out_channels(at_least(1, out_channels, "Conv3d", "out_channels")),
      options(checked("Conv3d", options, in_channels, out_channels)),
      weight(parameter("weight",
                       weight_of(out_channels, options.kernel, in_channels / options.groups),
                       FileLayout::conv_weight)),
      bias(parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor Conv3d::forward(const Tensor& x) {
  return conv3d(in_dtype_of(weight, x), weight, bias,
                {.stride = options.stride,
                 .padding = options.padding,
                 .dilation = options.dilation,
                 .groups = options.groups,
                 .activation = options.activation});
}

ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels,
                                 const ConvTranspose1dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "ConvTranspose1d", "in_channels")),
      out_channels(at_least(1, out_channels, "ConvTranspose1d", "out_channels")),
      options(checked("ConvTranspose1d", options, in_channels, out_channels)),
      weight(parameter("weight",
                       weight_of(in_channels, options.kernel, out_channels / options.groups),
                       FileLayout::conv_weight)),
      bias(parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor ConvTranspose1d::forward(const Tensor& x) {
  return conv_transpose1d(in_dtype_of(weight, x), weight, bias,
                          {.stride = options.stride,
                           .padding = options.padding,
                           .dilation = options.dilation,
                           .output_padding = options.output_padding,
                           .groups = options.groups});
}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels,
                                 const ConvTranspose2dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "ConvTranspose2d", "in_channels")),
      out_channels(at_least(1, out_channels, "ConvTranspose2d", "out_channels")),
      options(checked("ConvTranspose2d", options, in_channels, out_channels)),
      weight(parameter("weight",
                       weight_of(in_channels, options.kernel, out_channels / options.groups),
                       FileLayout::conv_weight)),
      bias(parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return conv_transpose2d(in_dtype_of(weight, x), weight, bias,
                          {.stride = options.stride,
                           .padding = options.padding,
                           .dilation = options.dilation,
                           .output_padding = options.output_padding,
                           .groups = options.groups});
}

ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels,
                                 const ConvTranspose3dLayerOptions& options)
    : in_channels(at_least(1, in_channels, "ConvTranspose3d", "in_channels")),
      out_channels(at_least(1, out_channels, "ConvTranspose3d", "out_channels")),
      options(checked("ConvTranspose3d", options, in_channels, out_channels)),
      weight(parameter("weight",
                       weight_of(in_channels, options.kernel, out_channels / options.groups),
                       FileLayout::conv_weight)),
      bias(parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor ConvTranspose3d::forward(const Tensor& x) {
  return conv_transpose3d(in_dtype_of(weight, x), weight, bias,
                          {.stride = options.stride,
                           .padding = options.padding,
                           .dilation = options.dilation,
                           .output_padding = options.output_padding,
                           .groups = options.groups});
}

}  // namespace adret
