// Two-dimensional convolution.
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

void check_params(const Conv2dParams& p, const Shape& weight) {
  const auto at_least = [](Size2 size, int64_t least) {
    return size.h >= least && size.w >= least;
  };
  if (!at_least(p.stride, 1) || !at_least(p.dilation, 1) || !at_least(p.padding, 0)) {
    check::refuse("conv2d",
                  fmt::format("stride {}, dilation {}, padding {}; wanted at least 1, 1, 0",
                              to_string(p.stride), to_string(p.dilation), to_string(p.padding)));
  }
  if (p.groups < 1) check::refuse("conv2d", fmt::format("groups {}, wanted at least 1", p.groups));
  if (weight[1] < 1 || weight[2] < 1) {
    check::refuse("conv2d", fmt::format("kernel {}x{} of weight {}; wanted at least 1x1", weight[1],
                                        weight[2], to_string(weight)));
  }
}

void check_channels(const Shape& x, const Shape& weight, int64_t groups) {
  const auto check_divides = [&](int64_t channels, const char* which) {
    if (channels % groups == 0) return;
    check::refuse("conv2d", fmt::format("{} {} channels are not divisible by groups {}", channels,
                                        which, groups));
  };
  check_divides(x[3], "input");
  check_divides(weight[0], "output");
  if (x[3] == weight[3] * groups) return;
  const std::string grouped = groups == 1 ? "" : fmt::format(" with groups {}", groups);
  check::refuse("conv2d", fmt::format("input has {} channels, weight {}{} wants {}", x[3],
                                      to_string(weight), grouped, weight[3] * groups));
}

Shape infer(const Shape& x, const Shape& weight, const Conv2dParams& p) {
  const auto out = [](int64_t size, int64_t padding, int64_t extent, int64_t stride) {
    const int64_t room = size + 2 * padding - extent;
    return room < 0 ? -1 : room / stride + 1;
  };
  const Size2 extent(p.dilation.h * (weight[1] - 1) + 1, p.dilation.w * (weight[2] - 1) + 1);
  const int64_t height = out(x[1], p.padding.h, extent.h, p.stride.h);
  const int64_t width = out(x[2], p.padding.w, extent.w, p.stride.w);
  if (height < 0 || width < 0) {
    check::refuse("conv2d",
                  fmt::format("kernel {}x{} with dilation {} covers {}, more than input {}x{} with "
                              "padding {}; enlarge the padding or the input",
                              weight[1], weight[2], to_string(p.dilation), to_string(extent), x[1],
                              x[2], to_string(p.padding)));
  }
  return {x[0], height, width, weight[0]};
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const FunctionScope scope("conv2d");
  check::alike("conv2d", {"x", x}, {"weight", weight});
  check::alike("conv2d", {"x", x}, {"bias", bias});
  check::floating("conv2d", {"x", x});
  check::rank("conv2d", {"x", x}, 4, "(N, H, W, C)");
  check::rank("conv2d", {"weight", weight}, 4, "(O, KH, KW, C / groups)");
  const Conv2dParams params{.stride = options.stride,
                            .padding = options.padding,
                            .dilation = options.dilation,
                            .groups = options.groups};
  if (is_gelu(options.activation)) {
    const char* const name = to_string(options.activation);
    check::refuse("conv2d",
                  fmt::format("activation {0}, wanted none or relu; use {0}(conv2d(...))", name));
  }
  check_params(params, weight.shape());
  check_channels(x.shape(), weight.shape(), params.groups);
  check::shape("conv2d", {"bias", bias}, {weight.size(0)});
  const Shape shape = infer(x.shape(), weight.shape(), params);
  return bilinear(Conv2dProduct{params}, {.x = x,
                                          .weight = weight,
                                          .bias = bias,
                                          .y = empty_like(x, shape),
                                          .activation = options.activation});
}

}  // namespace adret
