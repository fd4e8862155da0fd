// Tensors padded, flipped, rolled and repeated, of any dtype; gradients are of floats. Negative
// dimensions count from the end; one out of range or named twice is a ShapeError.
#pragma once

#include <adret/core/kernels/index.h>
#include <adret/core/tensor.h>

#include <vector>

namespace adret {

using kernels::PadMode;

// How many elements a dimension gets at its ends; negative ones are cut off.
struct Padding {
  int64_t before = 0, after = 0;
};

struct PadOptions {
  PadMode mode = PadMode::constant;  // reflect, replicate and circular as in PyTorch
  double value = 0;                  // of constant; ShapeError for one that x's dtype cannot hold
};

// One padding for each dimension of x, from the first one on (PyTorch's F.pad begins with the last,
// and leaves out the first ones): an image batch (N, H, W, C) gets {{}, {1, 1}, {1, 1}, {}}. Throws
// ShapeError for another number of paddings, a size below 0, and for modes that find nothing to
// repeat: reflect needs more elements than are added at an end, the others one at least.
Tensor pad(const Tensor& x, const std::vector<Padding>& paddings, const PadOptions& options = {});

// Elements in reverse order along the dimensions.
Tensor flip(const Tensor& x, const std::vector<int>& dims);
// Elements moved by shifts[i] places along dims[i]; what leaves at the end comes in at the
// beginning. Throws ShapeError unless there are as many shifts as dimensions.
Tensor roll(const Tensor& x, const std::vector<int64_t>& shifts, const std::vector<int>& dims);

// x repeated counts[i] times along dimension i: a b, a b. More counts than dimensions add leading
// ones; fewer are a ShapeError.
Tensor repeat(const Tensor& x, const std::vector<int64_t>& counts);
// Each place along a dimension repeated: a a, b b.
Tensor repeat_interleave(const Tensor& x, int64_t count, int dim);

}  // namespace adret
