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

// What an element of Remap's result is when its place lies outside x: a value, or the element that
// x mirrored at its ends (which do not repeat), held at its ends, or repeated has there.
enum class PadMode { constant, reflect, replicate, circular };
const char* to_string(PadMode mode);

// Where an element comes from: place i along dimension d is place start[d] + step[d] * i of x.
struct RemapParams {
  std::array<int64_t, Shape::max_rank> start{}, step{};
  PadMode mode = PadMode::constant;
  double value = 0;  // of constant
  bool operator==(const RemapParams&) const = default;
};
std::string to_string(const RemapParams& params, int rank);

// Pads, flips, rolls, repeats, and takes every n-th element: y has x's rank and any sizes. Steps
// are not 0, and 1 or -1 unless the mode is constant; reflect wants places within (-n, 2n - 1) of
// a dimension of n.
struct Remap {
  static constexpr const char* name = "remap";
  TensorView x, y;
  RemapParams remap;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const { return to_string(remap, x.shape.rank()); }
};

// dx[j] = sum of dy[i] over all i that Remap takes from j, in the order of i; 0 if there are none.
struct RemapBackward {
  static constexpr const char* name = "remap_backward";
  TensorView dy, dx;
  RemapParams remap;

  auto inputs() const { return operands(Operand{"dy", dy}); }
  auto outputs() const { return operands(Operand{"dx", dx}); }
  double flops() const { return double(dy.numel()); }
  std::string params() const { return to_string(remap, dy.shape.rank()); }
};

// y's place i along `dim` is x's place indices[i]; NaN (in integers 0) for an index outside. The
// indices, i32 or i64, are of y's shape, each element with its own, or of rank 1 for all alike. The
// other sizes of x and y agree.
struct Gather {
  static constexpr const char* name = "gather";
  TensorView x, indices, y;
  int dim = 0;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"indices", indices}); }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 0; }
  std::string params() const;
};

// What Scatter does with elements that go to one place, in the order of their places in x: the last
// one is written, all are added to what is there, or y is their sum alone, 0 where none goes.
enum class ScatterMode { assign, add, sum };
const char* to_string(ScatterMode mode);

// y's place indices[i] along `dim` gets x's place i, but for an index outside; indices as in
// Gather, of x's shape or of rank 1. Sums (of no boolean or u8) of 16 bits are kept in f32.
struct Scatter {
  static constexpr const char* name = "scatter";
  TensorView x, indices, y;
  int dim = 0;
  ScatterMode mode = ScatterMode::add;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"indices", indices},
                    Operand{"y", mode == ScatterMode::sum ? TensorView() : y});
  }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return mode == ScatterMode::assign ? 0 : double(x.numel()); }
  std::string params() const;
};

// y: x in order along `dim`, stably, or as many of the first as y has room for there; NaN counts as
// the largest. indices (i64, like y, or undefined): where along `dim` each stood.
struct Sort {
  static constexpr const char* name = "sort";
  TensorView x, y, indices;
  int dim = 0;
  bool descending = false;

  auto inputs() const { return operands(Operand{"x", x}); }
  auto outputs() const { return operands(Operand{"y", y}, Operand{"indices", indices}); }
  double flops() const { return 0; }
  std::string params() const;
};

}  // namespace adret::kernels
