// Softmax and its logarithm along one dimension.
#pragma once

#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

// y = exp(x) / sum exp(x) along `dim` (0..rank-1), or its logarithm; the maximum is taken off
// first.
struct SoftmaxForward {
  static constexpr const char* name = "softmax_forward";
  TensorView x, y;
  int dim = 0;
  bool log = false;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 4.0 * double(x.numel()); }
  std::string params() const;
};

// softmax: dx = y * (dy - sum(dy * y)); log: dx = dy - exp(y) * sum(dy).
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  TensorView y, dy, dx;
  int dim = 0;
  bool log = false;

  auto inputs() const { return operands(Operand{"y", y}, Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return 4.0 * double(dx.numel()); }
  std::string params() const;
};

}  // namespace adret::kernels
