// Two-dimensional convolution (cross-correlation) in its three directions.
#pragma once

#include <adret/core/kernels/matmul.h>
#include <adret/core/kernels/operand.h>
#include <adret/core/size2.h>

#include <string>

namespace adret::kernels {

struct Conv2dParams {
  Size2 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool operator==(const Conv2dParams&) const = default;
};
std::string to_string(const Conv2dParams& params);

// y = activation(x * weight + bias): x (N, H, W, C), weight (O, KH, KW, C / groups), bias (O) or
// undefined, y (N, OH, OW, O). The activation is none or relu.
struct Conv2dForward {
  static constexpr const char* name = "conv2d_forward";
  TensorView x, weight, bias, y;
  Conv2dParams conv;
  Activation activation = Activation::none;
  MathMode math = MathMode::exact;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"weight", weight}, Operand{"bias", bias});
  }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const {
    return 2.0 * double(y.numel()) * double(weight.numel() / weight.shape[0]);
  }
  std::string params() const;
};

// dx from dy and weight, shapes as in Conv2dForward.
struct Conv2dBackwardInput {
  static constexpr const char* name = "conv2d_backward_input";
  TensorView dy, weight, dx;
  Conv2dParams conv;
  MathMode math = MathMode::exact;

  auto inputs() const { return operands(Operand{"dy", dy}, Operand{"weight", weight}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const {
    return 2.0 * double(dy.numel()) * double(weight.numel() / weight.shape[0]);
  }
  std::string params() const;
};

// dweight and dbias (either may be undefined) from x and dy. All zero for N = 0.
struct Conv2dBackwardWeight {
  static constexpr const char* name = "conv2d_backward_weight";
  TensorView x, dy, dweight, dbias;
  Conv2dParams conv;
  MathMode math = MathMode::exact;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dweight", dweight}, Operand{"dbias", dbias}); }
  double flops() const {
    return dweight.defined() ? 2.0 * double(dy.numel()) * double(dweight.numel() / dweight.shape[0])
                             : double(dy.numel());
  }
  std::string params() const;
};

}  // namespace adret::kernels
