// Kernels that only move elements.
#pragma once

#include <adret/core/kernels/operand.h>

#include <array>
#include <cstdint>
#include <string>

namespace adret::kernels {

// y's dimension i is x's dimension order[i]; dense copy.
struct Permute {
  static constexpr const char* name = "permute";
  TensorView x, y;
  std::array<int, Shape::max_rank> order{};

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const;
};

// `count` runs of `length` elements: y[y_offset + i * y_stride + j] = x[x_offset + i * x_stride +
// j]. Slices, concatenation and their gradients are this copy.
struct CopyRuns {
  static constexpr const char* name = "copy_runs";
  TensorView x, y;
  int64_t count = 0, length = 0;
  int64_t x_offset = 0, x_stride = 0, y_offset = 0, y_stride = 0;  // elements

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const;
};

// y[i] = x[indices[i]] along the first dimension; indices (N) i64, within range.
struct GatherRows {
  static constexpr const char* name = "gather_rows";
  TensorView x, indices, y;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"indices", indices}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
};

}  // namespace adret::kernels
