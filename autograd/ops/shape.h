// Functions that rearrange elements, of any dtype. Reshapes and slices of the leading dimension
// share memory; the others copy, but flatten where nothing moves. Negative dimensions count from
// the end; one out of range is a ShapeError.
#pragma once

#include <adret/core/tensor.h>

#include <vector>

namespace adret {

// One size may be -1. Shares memory. Throws ShapeError for another number of elements, and for a
// -1 that is not the only one or could be anything.
Tensor reshape(const Tensor& x, std::span<const int64_t> sizes);
// (N, ...) -> (N, elements of one). Images (N, H, W, C) are written in C, H, W order, and volumes
// (N, D, H, W, C) in C, D, H, W order, as PyTorch does, so that the weights of a linear layer
// behind it mean the same. Throws ShapeError for a scalar.
Tensor flatten(const Tensor& x);
// Swaps two dimensions.
Tensor transpose(const Tensor& x, int dim0, int dim1);
// Dimension i of the result is dimension order[i] of x. Throws ShapeError unless every dimension is
// named once.
Tensor permute(const Tensor& x, const std::vector<int>& order);
// Elements begin..end-1 of a dimension; negative bounds count from the end. Throws ShapeError for
// bounds outside the dimension, or an end before the beginning.
Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end);
// Joins tensors whose other dimensions agree. Throws ShapeError when they do not, when dtypes
// differ and for no tensors, DeviceError for several devices.
Tensor concatenate(const std::vector<Tensor>& tensors, int dim);
// Joins tensors of one shape along a new dimension, -1 being behind the last. Throws as
// concatenate.
Tensor stack(const std::vector<Tensor>& tensors, int dim);
// Slices of `size` elements along a dimension, the last one of those that are left; one of 0
// elements for none. Throws ShapeError for a size below 1.
std::vector<Tensor> split(const Tensor& x, int64_t size, int dim);
// The same in `count` slices of equal size, as far as it divides: fewer where rounding up the size
// leaves nothing for the last. Throws ShapeError for a count below 1.
std::vector<Tensor> chunk(const Tensor& x, int64_t count, int dim);
// The slices of one element, without the dimension; none of 0 elements.
std::vector<Tensor> unbind(const Tensor& x, int dim = 0);
// Removes a dimension of size 1, another size being a ShapeError; inserts one before `dim`, -1
// being behind the last. Both share memory.
Tensor squeeze(const Tensor& x, int dim);
Tensor unsqueeze(const Tensor& x, int dim);
// Stretches dimensions of size 1, and adds leading ones. Throws ShapeError for other differences.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace adret
