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

void check_below(const char* layer, int64_t output_padding, int64_t stride) {
  if (output_padding < stride) return;
  throw Error(fmt::format("[{}] output_padding is {}; it must be below the stride {}", layer,
                          output_padding, stride));
}
void check_below(const char* layer, Size2 output_padding, Size2 stride) {
  check_below(layer, output_padding.h, stride.h);
  check_below(layer, output_padding.w, stride.w);
}
void check_below(const char* layer, Size3 output_padding, Size3 stride) {
  check_below(layer, output_padding.d, stride.d);
  check_below(layer, output_padding.plane(), stride.plane());
}

template <class Size>
const ConvLayerOptions<Size>& checked(const char* layer, const ConvLayerOptions<Size>& options,
                                      int64_t in, int64_t out) {
  check_common(layer, options, in, out);
  at_least(0, options.padding.size, layer, "padding");
  if (options.padding.is_same && options.stride != Size(1)) {
    throw Error(fmt::format("[{}] padding same wants a stride of 1", layer));
  }
  if (is_gelu(options.activation)) {
    throw Error(fmt::format("[{}] activation is {}; it must be none or relu: put a GELU behind it",
                            layer, to_string(options.activation)));
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
  check_below(layer, options.output_padding, options.stride);
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

Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv1dOptions& options) {
  return conv1d(x, weight, bias, options);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv2dOptions& options) {
  return conv2d(x, weight, bias, options);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const Conv3dOptions& options) {
  return conv3d(x, weight, bias, options);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const ConvTranspose1dOptions& options) {
  return conv_transpose1d(x, weight, bias, options);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const ConvTranspose2dOptions& options) {
  return conv_transpose2d(x, weight, bias, options);
}
Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const ConvTranspose3dOptions& options) {
  return conv_transpose3d(x, weight, bias, options);
}

}  // namespace

template <class Self, class Size>
ConvLayer<Self, Size>::ConvLayer(const char* type, int64_t in_channels, int64_t out_channels,
                                 const ConvLayerOptions<Size>& options)
    : in_channels(at_least(1, in_channels, type, "in_channels")),
      out_channels(at_least(1, out_channels, type, "out_channels")),
      options(checked(type, options, in_channels, out_channels)),
      weight(this->parameter("weight",
                             weight_of(out_channels, options.kernel, in_channels / options.groups),
                             FileLayout::conv_weight)),
      bias(this->parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

template <class Self, class Size>
Tensor ConvLayer<Self, Size>::forward(const Tensor& x) {
  return convolved(in_dtype_of(weight, x), weight, bias,
                   ConvOptions<Size>{.stride = options.stride,
                                     .padding = options.padding,
                                     .dilation = options.dilation,
                                     .groups = options.groups,
                                     .activation = options.activation});
}

template <class Self, class Size>
ConvTransposeLayer<Self, Size>::ConvTransposeLayer(const char* type, int64_t in_channels,
                                                   int64_t out_channels,
                                                   const ConvTransposeLayerOptions<Size>& options)
    : in_channels(at_least(1, in_channels, type, "in_channels")),
      out_channels(at_least(1, out_channels, type, "out_channels")),
      options(checked(type, options, in_channels, out_channels)),
      weight(this->parameter("weight",
                             weight_of(in_channels, options.kernel, out_channels / options.groups),
                             FileLayout::conv_weight)),
      bias(this->parameter("bias", bias_of(options.bias, out_channels))) {
  init::fan_in_uniform_(weight, bias);
}

template <class Self, class Size>
Tensor ConvTransposeLayer<Self, Size>::forward(const Tensor& x) {
  return convolved(in_dtype_of(weight, x), weight, bias,
                   ConvTransposeOptions<Size>{.stride = options.stride,
                                              .padding = options.padding,
                                              .dilation = options.dilation,
                                              .output_padding = options.output_padding,
                                              .groups = options.groups});
}

template class ConvLayer<Conv1d, int64_t>;
template class ConvLayer<Conv2d, Size2>;
template class ConvLayer<Conv3d, Size3>;
template class ConvTransposeLayer<ConvTranspose1d, int64_t>;
template class ConvTransposeLayer<ConvTranspose2d, Size2>;
template class ConvTransposeLayer<ConvTranspose3d, Size3>;

}  // namespace adret
