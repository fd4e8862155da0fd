// What convolutions of images and volumes share: their checks and the sizes of their outputs.
#pragma once

#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/window.h>
#include <fmt/core.h>

namespace adret {

template <class Size>
struct ConvSizes {
  Size kernel, stride, padding, dilation;  // padding at both ends
  int64_t groups;
  Size end_padding = 0;  // zeros behind the input besides, of Pad::same

  // What a kernel covers of its input.
  Size extent() const {
    return each_direction([](int64_t k, int64_t d) { return d * (k - 1) + 1; }, kernel, dilation);
  }
};

// The options of a convolution or a transposed one for `weight`, with Pad::same worked out. Throws
// ShapeError for sizes out of range.
template <class Size, class Options>
ConvSizes<Size> conv_sizes(const char* function, const Options& options, const Tensor& weight) {
  ConvSizes<Size> sizes{.kernel = inner_sizes<Size>(weight.shape()),
                        .stride = options.stride,
                        .padding = PaddingOrSame<Size>(options.padding).size,
                        .dilation = options.dilation,
                        .groups = options.groups};
  if (!at_least(1, sizes.stride) || !at_least(1, sizes.dilation) || !at_least(0, sizes.padding)) {
    check::refuse(
        function,
        fmt::format("stride {}, dilation {}, padding {}; wanted at least 1, 1, 0",
                    to_string(sizes.stride), to_string(sizes.dilation), to_string(sizes.padding)));
  }
  check_steps<Size>(
      function,
      {{"stride", sizes.stride}, {"dilation", sizes.dilation}, {"padding", sizes.padding}});
  if (sizes.groups < 1 || sizes.groups > largest_step) {
    check::refuse(function,
                  sizes.groups < 1
                      ? fmt::format("groups {}, wanted at least 1", sizes.groups)
                      : fmt::format("groups {}, wanted at most {}", sizes.groups, largest_step));
  }
  if (!at_least(1, sizes.kernel)) {
    check::refuse(function,
                  fmt::format("kernel {} of weight {}; wanted at least {}", to_string(sizes.kernel),
                              to_string(weight.shape()), to_string(Size(1))));
  }
  if (!PaddingOrSame<Size>(options.padding).is_same) return sizes;
  if (sizes.stride != Size(1)) {
    check::refuse(function, fmt::format("padding same with stride {}; wanted stride {}",
                                        to_string(sizes.stride), to_string(Size(1))));
  }
  const Size extent = sizes.extent();
  sizes.padding = each_direction([](int64_t covered) { return (covered - 1) / 2; }, extent);
  sizes.end_padding = each_direction([](int64_t covered) { return (covered - 1) % 2; }, extent);
  return sizes;
}

// x (N, ..., C), weight (O, ..., C / groups), bias (O) or undefined.
template <class Size>
void check_conv(const char* function, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const ConvSizes<Size>& sizes) {
  const auto check_divides = [&](int64_t channels, const char* which) {
    if (channels % sizes.groups == 0) return;
    check::refuse(function, fmt::format("{} {} channels are not divisible by groups {}", channels,
                                        which, sizes.groups));
  };
  const int64_t channels = x.size(-1), wanted = weight.size(-1) * sizes.groups;
  check_divides(channels, "input");
  check_divides(weight.size(0), "output");
  if (channels != wanted) {
    const std::string grouped =
        sizes.groups == 1 ? "" : fmt::format(" with groups {}", sizes.groups);
    check::refuse(function, fmt::format("input has {} channels, weight {}{} wants {}", channels,
                                        to_string(weight.shape()), grouped, wanted));
  }
  check::shape(function, {"bias", bias}, {weight.size(0)});
}

// x (N, ..., I), weight (I, ..., O / groups), bias (O) or undefined.
template <class Size>
void check_conv_transpose(const char* function, const Tensor& x, const Tensor& weight,
                          const Tensor& bias, const ConvSizes<Size>& sizes) {
  const int64_t channels = x.size(-1);
  if (channels != weight.size(0) || weight.size(0) % sizes.groups != 0) {
    check::refuse(function,
                  fmt::format("input has {} channels, weight {} with groups {} wants {}", channels,
                              to_string(weight.shape()), sizes.groups, weight.size(0)));
  }
  check::shape(function, {"bias", bias}, {weight.size(-1) * sizes.groups});
}

// Sizes of the output of x (N, ..., C). Throws ShapeError when the kernel does not fit.
template <class Size>
Size conv_output(const char* function, const Shape& x, const ConvSizes<Size>& sizes) {
  const Size input = inner_sizes<Size>(x), extent = sizes.extent();
  const Size room =
      each_direction([](int64_t size, int64_t padding, int64_t end,
                        int64_t covered) { return size + 2 * padding + end - covered; },
                     input, sizes.padding, sizes.end_padding, extent);
  if (!at_least(0, room)) {
    check::refuse(function,
                  fmt::format("kernel {} with dilation {} covers {}, more than input {} "
                              "with padding {}; enlarge the padding or the input",
                              to_string(sizes.kernel), to_string(sizes.dilation), to_string(extent),
                              to_string(input), to_string(sizes.padding)));
  }
  return each_direction([](int64_t left, int64_t stride) { return left / stride + 1; }, room,
                        sizes.stride);
}

// The same of a transposed convolution.
template <class Size>
Size conv_transpose_output(const char* function, const Shape& x, const Size& output_padding,
                           const ConvSizes<Size>& sizes) {
  const Size below_stride = each_direction(
      [](int64_t stride, int64_t more) { return stride - 1 - more; }, sizes.stride, output_padding);
  if (!at_least(0, output_padding) || !at_least(0, below_stride)) {
    check::refuse(function, fmt::format("output_padding {}, wanted from 0 to below the stride {}",
                                        to_string(output_padding), to_string(sizes.stride)));
  }
  const Size input = inner_sizes<Size>(x);
  const Size output = each_direction(
      [](int64_t size, int64_t stride, int64_t padding, int64_t covered, int64_t more) {
        return (size - 1) * stride - 2 * padding + covered + more;
      },
      input, sizes.stride, sizes.padding, sizes.extent(), output_padding);
  if (!at_least(1, output) || !at_least(1, input)) {
    check::refuse(function, fmt::format("input {} with padding {} leaves no output; lower the "
                                        "padding or enlarge the input",
                                        to_string(input), to_string(sizes.padding)));
  }
  return output;
}

// x, weight and bias are of one device and one floating dtype.
inline void check_operands(const char* function, const Tensor& x, const Tensor& weight,
                           const Tensor& bias) {
  check::alike(function, {"x", x}, {"weight", weight});
  check::alike(function, {"x", x}, {"bias", bias});
  check::floating(function, {"x", x});
}

// None or relu can be fused.
inline void check_activation(const char* function, Activation activation) {
  if (!is_gelu(activation)) return;
  check::refuse(function, fmt::format("activation {0}, wanted none or relu; use {0}({1}(...))",
                                      to_string(activation), function));
}

}  // namespace adret
