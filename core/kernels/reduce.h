// Reductions over dimensions.
#pragma once

#include <adret/core/kernels/operand.h>

#include <cstdint>
#include <string>

namespace adret::kernels {

enum class ReduceOp { sum, mean, max, min, prod };
const char* to_string(ReduceOp op);

// y = op over the dimensions of x whose bit is set in `dims` (bit i: dimension i). y holds the
// remaining dimensions in order, with or without ones in between. f16 and bf16 sum in f32. The mean
// of nothing is NaN, the sum 0, the product 1; max and min of nothing are refused by the caller;
// NaN wins.
struct Reduce {
  static constexpr const char* name = "reduce";
  TensorView x, y;
  uint32_t dims = 0;
  ReduceOp op = ReduceOp::sum;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return double(x.numel()); }
  std::string params() const;
};

// The largest or smallest element along `dim` (0..rank-1), and the place of the first one that is
// equal to it; NaN wins, the first one. x has at least one element along `dim`; floats, i32 and
// i64. values (x's dtype, may be undefined) and indices (i64) hold the other dimensions in order.
struct Extreme {
  static constexpr const char* name = "extreme";
  TensorView x, values, indices;
  int dim = 0;
  bool largest = true;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"values", values}, Operand{"indices", indices}); }
  double flops() const { return double(x.numel()); }
  std::string params() const;
};

}  // namespace adret::kernels
