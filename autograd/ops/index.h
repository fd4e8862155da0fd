// Elements picked, placed and masked by indices. Tensors may have any dtype unless said; indices
// are i32 or i64 on the same device. Negative dimensions count from the end.
//
// An index outside the dimension is an Error that names it on the CPU. Other devices and replayed
// steps do not look: there such an element is NaN (0 in integers), or goes nowhere.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// y[..., i, ...] = x[..., indices[..., i, ...], ...], i along `dim`: the indices have y's shape,
// and x's sizes but along `dim`, else ShapeError.
Tensor gather(const Tensor& x, int dim, const Tensor& indices);
// x[..., indices[i], ...], i along `dim`: the indices are (n).
Tensor index_select(const Tensor& x, int dim, const Tensor& indices);

// x with y[..., indices[..., i, ...], ...] = source[..., i, ...]; source and indices have one
// shape, and x's sizes but along `dim`, else ShapeError. Where several go to one place the last is
// written, and the gradient is that one's.
Tensor scatter(const Tensor& x, int dim, const Tensor& indices, const Tensor& source);
// The same, but all that go to a place are added to it, in their order; floats, i32 or i64.
Tensor scatter_add(const Tensor& x, int dim, const Tensor& indices, const Tensor& source);
// x with y[..., indices[i], ...] += source[..., i, ...]: the indices are (n); floats, i32 or i64.
Tensor index_add(const Tensor& x, int dim, const Tensor& indices, const Tensor& source);

// `value` where the mask is true, else x; the mask is boolean and broadcasts to x's shape, else
// ShapeError. So is a value that x's dtype cannot hold, as -1e9 in f16: take -infinity.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

}  // namespace adret
