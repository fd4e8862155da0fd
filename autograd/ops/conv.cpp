// Convolutions and transposed ones of images and sequences.
#include <adret/autograd/ops/bilinear.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/conv_parts.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/pad.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/kernels/kernel.h>

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

Conv2dParams params_of(const ConvSizes<Size2>& sizes) {
  return {.stride = sizes.stride,
          .padding = sizes.padding,
          .dilation = sizes.dilation,
          .groups = sizes.groups};
}

// Note [No channels]
// Where one side of a convolution has no channels, nothing is added up, and which places a kernel
// covers does not matter: the tensors of that side are empty in any shape, and what is left is a
// linear layer without inputs, or without outputs, with its derivatives. Kernels never see it.

// (N, H, W, C), (O, KH, KW, C / groups).
Tensor convolve(const char* function, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Conv2dOptions& options) {
  check_operands(function, x, weight, bias);
  check_activation(function, options.activation);
  const auto sizes = conv_sizes<Size2>(function, options, weight);
  check_conv(function, x, weight, bias, sizes);
  const Size2 output = conv_output(function, x.shape(), sizes);
  if (x.size(3) == 0) {  // see Note [No channels]
    return linear(x.reshape(around(x.size(0), output, 0)), weight.reshape({weight.size(0), 0}),
                  bias, {.activation = options.activation});
  }
  const Size2 end = sizes.end_padding;
  const Tensor padded = end == Size2(0) ? x : pad(x, {{}, {0, end.h}, {0, end.w}, {}});
  return bilinear(Conv2dProduct{params_of(sizes)},
                  {.x = padded,
                   .weight = weight,
                   .bias = bias,
                   .y = empty_like(x, around(x.size(0), output, weight.size(0))),
                   .activation = options.activation});
}

// (N, H, W, I), (I, KH, KW, O / groups): x is the gradient of a convolution's output.
Tensor convolve_transposed(const char* function, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, const ConvTranspose2dOptions& options) {
  check_operands(function, x, weight, bias);
  const auto sizes = conv_sizes<Size2>(function, options, weight);
  check_conv_transpose(function, x, weight, bias, sizes);
  const Size2 output = conv_transpose_output(function, x.shape(), options.output_padding, sizes);
  const Shape shape = around(x.size(0), output, weight.size(3) * sizes.groups);
  if (weight.size(3) == 0) {  // see Note [No channels]
    const int64_t channels = x.size(3), places = x.shape().without(3).numel();
    const Tensor y =
        matmul(x.reshape({places, channels}), weight.reshape({channels, 0})).reshape(shape);
    return bias.defined() ? y + bias : y;
  }
  const Tensor y = input_gradient(Conv2dProduct{params_of(sizes)}, x, weight, empty_like(x, shape));
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
                            .padding = options.padding.is_same ? PaddingOrSame<Size2>(Pad::same)
                                                               : Size2(0, options.padding.size),
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
