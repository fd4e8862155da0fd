// Convolutions and transposed ones.
#include <adret/autograd/ops/bilinear.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/conv.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

// x (N, H, W, C), weight (O, KH, KW, C / groups), bias (O), y (N, OH, OW, O); see Note [Bilinear
// products].
struct Conv2dProduct {
  static constexpr const char* name = "conv2d";
  static constexpr const char* input_name = Conv2dBackwardInput::name;
  static constexpr const char* weight_name = Conv2dBackwardWeight::name;
  Conv2dParams params;
  MathMode math = compute_mode().math;

  void forward(const BilinearForward& call) const {
    run(Conv2dForward{.x = call.x,
                      .weight = call.weight,
                      .bias = call.bias,
                      .y = call.y,
                      .conv = params,
                      .activation = call.activation,
                      .math = math});
  }
  void backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx) const {
    run(Conv2dBackwardInput{.dy = dy, .weight = weight, .dx = dx, .conv = params, .math = math});
  }
  void backward_weight(const Tensor& x, const Tensor& dy, const WeightGradients& out) const {
    run(Conv2dBackwardWeight{
        .x = x, .dy = dy, .dweight = out.weight, .dbias = out.bias, .conv = params, .math = math});
  }
};

void check_params(const char* function, const Conv2dParams& p, const Shape& weight) {
  const auto at_least = [](Size2 size, int64_t least) {
    return size.h >= least && size.w >= least;
  };
  if (!at_least(p.stride, 1) || !at_least(p.dilation, 1) || !at_least(p.padding, 0)) {
    check::refuse(function,
                  fmt::format("stride {}, dilation {}, padding {}; wanted at least 1, 1, 0",
                              to_string(p.stride), to_string(p.dilation), to_string(p.padding)));
  }
  if (p.groups < 1) check::refuse(function, fmt::format("groups {}, wanted at least 1", p.groups));
  if (weight[1] < 1 || weight[2] < 1) {
    check::refuse(function, fmt::format("kernel {}x{} of weight {}; wanted at least 1x1", weight[1],
                                        weight[2], to_string(weight)));
  }
}

void check_channels(const char* function, const Shape& x, const Shape& weight, int64_t groups) {
  const auto check_divides = [&](int64_t channels, const char* which) {
    if (channels % groups == 0) return;
    check::refuse(function, fmt::format("{} {} channels are not divisible by groups {}", channels,
                                        which, groups));
  };
  check_divides(x[3], "input");
  check_divides(weight[0], "output");
  if (x[3] == weight[3] * groups) return;
  const std::string grouped = groups == 1 ? "" : fmt::format(" with groups {}", groups);
  check::refuse(function, fmt::format("input has {} channels, weight {}{} wants {}", x[3],
                                      to_string(weight), grouped, weight[3] * groups));
}

// What a kernel covers of its input.
Size2 extent_of(const Conv2dParams& p, const Shape& weight) {
  return {p.dilation.h * (weight[1] - 1) + 1, p.dilation.w * (weight[2] - 1) + 1};
}

Shape infer(const char* function, const Shape& x, const Shape& weight, const Conv2dParams& p) {
  const auto out = [](int64_t size, int64_t padding, int64_t extent, int64_t stride) {
    const int64_t room = size + 2 * padding - extent;
    return room < 0 ? -1 : room / stride + 1;
  };
  const Size2 extent = extent_of(p, weight);
  const int64_t height = out(x[1], p.padding.h, extent.h, p.stride.h);
  const int64_t width = out(x[2], p.padding.w, extent.w, p.stride.w);
  if (height < 0 || width < 0) {
    check::refuse(function,
                  fmt::format("kernel {}x{} with dilation {} covers {}, more than input {}x{} with "
                              "padding {}; enlarge the padding or the input",
                              weight[1], weight[2], to_string(p.dilation), to_string(extent), x[1],
                              x[2], to_string(p.padding)));
  }
  return {x[0], height, width, weight[0]};
}

// (N, H, W, C), (O, KH, KW, C / groups).
Tensor convolve(const char* function, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Conv2dOptions& options) {
  check::alike(function, {"x", x}, {"weight", weight});
  check::alike(function, {"x", x}, {"bias", bias});
  check::floating(function, {"x", x});
  const Conv2dParams params{.stride = options.stride,
                            .padding = options.padding,
                            .dilation = options.dilation,
                            .groups = options.groups};
  if (is_gelu(options.activation)) {
    const char* const name = to_string(options.activation);
    check::refuse(function, fmt::format("activation {0}, wanted none or relu; use {0}({1}(...))",
                                        name, function));
  }
  check_params(function, params, weight.shape());
  check_channels(function, x.shape(), weight.shape(), params.groups);
  check::shape(function, {"bias", bias}, {weight.size(0)});
  const Shape shape = infer(function, x.shape(), weight.shape(), params);
  return bilinear(Conv2dProduct{params}, {.x = x,
                                          .weight = weight,
                                          .bias = bias,
                                          .y = empty_like(x, shape),
                                          .activation = options.activation});
}

// (N, H, W, I), (I, KH, KW, O / groups): x is the gradient of a convolution's output.
Tensor convolve_transposed(const char* function, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const ConvTranspose2dOptions& options) {
  check::alike(function, {"x", x}, {"weight", weight});
  check::alike(function, {"x", x}, {"bias", bias});
  check::floating(function, {"x", x});
  const Conv2dParams p{.stride = options.stride,
                       .padding = options.padding,
                       .dilation = options.dilation,
                       .groups = options.groups};
  check_params(function, p, weight.shape());
  const Size2 more = options.output_padding;
  if (more.h < 0 || more.w < 0 || more.h >= p.stride.h || more.w >= p.stride.w) {
    check::refuse(function, fmt::format("output_padding {}, wanted from 0 to below the stride {}",
                                        to_string(more), to_string(p.stride)));
  }
  const int64_t channels = weight.size(3) * p.groups;
  if (x.size(3) != weight.size(0) || weight.size(0) % p.groups != 0) {
    check::refuse(function,
                  fmt::format("input has {} channels, weight {} with groups {} wants {}", x.size(3),
                              to_string(weight.shape()), p.groups, weight.size(0)));
  }
  check::shape(function, {"bias", bias}, {channels});
  const auto out = [](int64_t size, int64_t stride, int64_t padding, int64_t extent, int64_t more) {
    return (size - 1) * stride - 2 * padding + extent + more;
  };
  const Size2 extent = extent_of(p, weight.shape());
  const int64_t height = out(x.size(1), p.stride.h, p.padding.h, extent.h, more.h);
  const int64_t width = out(x.size(2), p.stride.w, p.padding.w, extent.w, more.w);
  if (height < 1 || width < 1 || x.size(1) < 1 || x.size(2) < 1) {
    check::refuse(function, fmt::format("input {}x{} with padding {} leaves no output; lower the "
                                        "padding or enlarge the input",
                                        x.size(1), x.size(2), to_string(p.padding)));
  }
  const Tensor y = input_gradient(Conv2dProduct{p}, x, weight,
                                  empty_like(x, {x.size(0), height, width, channels}));
  return bias.defined() ? y + bias : y;
}

// A sequence as an image of one row, and back.
Tensor as_row(const Tensor& x) { return x.reshape({x.size(0), 1, x.size(1), x.size(2)}); }
Tensor from_row(const Tensor& y) { return y.reshape({y.size(0), y.size(2), y.size(3)}); }

void check_sequences(const char* function, const Tensor& x, const Tensor& weight,
                     const char* layout) {
  check::rank(function, {"x", x}, 3, "(N, L, C)");
  check::rank(function, {"weight", weight}, 3, layout);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const FunctionScope scope("conv2d");
  check::rank("conv2d", {"x", x}, 4, "(N, H, W, C)");
  check::rank("conv2d", {"weight", weight}, 4, "(O, KH, KW, C / groups)");
  return convolve("conv2d", x, weight, bias, options);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  const FunctionScope scope("conv1d");
  check_sequences("conv1d", x, weight, "(O, K, C / groups)");
  return from_row(convolve("conv1d", as_row(x), as_row(weight), bias,
                           {.stride = {1, options.stride},
                            .padding = {0, options.padding},
                            .dilation = {1, options.dilation},
                            .groups = options.groups,
                            .activation = options.activation}));
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  const FunctionScope scope("conv_transpose2d");
  check::rank("conv_transpose2d", {"x", x}, 4, "(N, H, W, I)");
  check::rank("conv_transpose2d", {"weight", weight}, 4, "(I, KH, KW, O / groups)");
  return convolve_transposed("conv_transpose2d", x, weight, bias, options);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  const FunctionScope scope("conv_transpose1d");
  check_sequences("conv_transpose1d", x, weight, "(I, K, O / groups)");
  return from_row(convolve_transposed("conv_transpose1d", as_row(x), as_row(weight), bias,
                                      {.stride = {1, options.stride},
                                       .padding = {0, options.padding},
                                       .dilation = {1, options.dilation},
                                       .output_padding = {0, options.output_padding},
                                       .groups = options.groups}));
}

}  // namespace adret
