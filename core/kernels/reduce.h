// Reductions over dimensions.
#pragma once

#include <adret/core/kernels/operand.h>

#include <cstdint>
#include <string>

namespace adret::kernels {

enum class ReduceOp { sum, mean, max, min, prod, norm, var, logsumexp };
const char* to_string(ReduceOp op);

// Those whose gradient is ReduceBackward.
constexpr bool is_statistic(ReduceOp op) {
  return op == ReduceOp::norm || op == ReduceOp::var || op == ReduceOp::logsumexp;
}

// What the sum of squares of `count` elements is divided by.
constexpr double var_divisor(int64_t count, double correction) {
  return double(count) > correction ? double(count) - correction : 0;
}

// x's shape with sizes of 1 in the dimensions of `dims`: what broadcasts to x again.
inline Shape kept_shape(Shape x, uint32_t dims) {
  for (int d = 0; d < x.rank(); ++d) {
    if (dims >> d & 1) x = x.with(d, 1);
  }
  return x;
}

// y = op over the dimensions of x whose bit is set in `dims` (bit i: dimension i). y holds the
// remaining dimensions in order, with or without ones in between. f16 and bf16 sum in f32. The mean
// of nothing is NaN, the sum 0, the product 1; max and min of nothing are refused by the caller;
// NaN wins. Of integers: sum and prod into i64, which wraps, of booleans too; max and min.
// Of the statistics y is f32, f64 for f64 x: the 2-norm, 0 of nothing; the sum of squared distances
// from the mean over max(0, count - correction); log(sum(exp(x))), the maximum taken off first,
// -infinity of nothing. var gives its means as well, in y's dtype, if `mean` is defined.
struct Reduce {
  static constexpr const char* name = "reduce";
  TensorView x, y, mean;
  uint32_t dims = 0;
  ReduceOp op = ReduceOp::sum;
  double correction = 0;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}, Operand{"mean", mean}); }
  double flops() const { return double(x.numel()); }
  std::string params() const;
};

// dx = dy * x / y for the norm, 0 where y is 0; dy * exp(x - y) for logsumexp; dy * 2 (x - mean) /
// max(0, count - correction) for var. y, of the first two, and mean, of var, are Reduce's.
struct ReduceBackward {
  static constexpr const char* name = "reduce_backward";
  TensorView x, y, mean, dy, dx;
  uint32_t dims = 0;
  ReduceOp op = ReduceOp::norm;
  double correction = 0;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"y", y}, Operand{"mean", mean}, Operand{"dy", dy});
  }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return 2.0 * double(x.numel()); }
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
