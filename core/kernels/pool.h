// Max and average pooling of images (N, H, W, C).
#pragma once

#include <adret/core/kernels/matmul.h>
#include <adret/core/kernels/operand.h>
#include <adret/core/size2.h>

#include <string>

namespace adret::kernels {

struct Pool2dParams {
  Size2 kernel = 2, stride = 2, padding = 0;
  bool count_include_pad = true;  // average only: padding counts in the divisor
  bool operator==(const Pool2dParams&) const = default;
};
std::string to_string(const Pool2dParams& params);

// y = activation(the largest of each window); padding never wins; NaN wins. `position`, if defined,
// gets the winner's place in its window, kh * KW + kw, the first of equals: u8 for windows of up to
// 256 elements, else i32. The activation is none or relu; where relu's gradient is zero, `position`
// is that of no element, KH * KW, so that the backward pass is the same: of windows of up to 255
// elements for u8.
struct MaxPool2dForward {
  static constexpr const char* name = "max_pool2d_forward";
  TensorView x, y, position;
  Pool2dParams pool;
  Activation activation = Activation::none;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}, Operand{"position", position}); }
  double flops() const { return double(y.numel() * pool.kernel.area()); }
  std::string params() const;
};

// dx = dy at each window's winner, summed where windows overlap.
struct MaxPool2dBackward {
  static constexpr const char* name = "max_pool2d_backward";
  TensorView dy, position, dx;
  Pool2dParams pool;

  auto inputs() const { return operands(Operand{"dy", dy}, Operand{"position", position}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return double(dy.numel()); }
  std::string params() const { return to_string(pool); }
};

// y = the winners of x that `position` names: the second derivative's way forward.
struct MaxPool2dGather {
  static constexpr const char* name = "max_pool2d_gather";
  TensorView x, position, y;
  Pool2dParams pool;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"position", position}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const { return to_string(pool); }
};

// y = the mean of each window. The divisor is the window's elements inside the padded image if
// count_include_pad, else those inside the image.
struct AvgPool2dForward {
  static constexpr const char* name = "avg_pool2d_forward";
  TensorView x, y;
  Pool2dParams pool;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return double(y.numel() * pool.kernel.area()); }
  std::string params() const { return to_string(pool); }
};

struct AvgPool2dBackward {
  static constexpr const char* name = "avg_pool2d_backward";
  TensorView dy, dx;
  Pool2dParams pool;

  auto inputs() const { return operands(Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return double(dy.numel() * pool.kernel.area()); }
  std::string params() const { return to_string(pool); }
};

}  // namespace adret::kernels
