// Reductions over dimensions. Without dimensions all are reduced; negative ones count from the end;
// one named twice is an error. With `keepdim` reduced dimensions stay, with size 1.
#pragma once

#include <adret/core/tensor.h>

#include <vector>

namespace adret {

struct ReduceOptions {
  std::vector<int> dims = {};  // none: all
  bool keepdim = false;
};

// Of floats in x's dtype; of integers and booleans in i64, whatever their dtype, where it wraps
// around beyond 2^63 - 1.
Tensor sum(const Tensor& x, const ReduceOptions& options = {});
// Of floats.
Tensor mean(const Tensor& x, const ReduceOptions& options = {});
// The largest (smallest) elements of floats or integers; equal ones share the gradient. Throws
// ShapeError for no elements.
Tensor max(const Tensor& x, const ReduceOptions& options = {});
Tensor min(const Tensor& x, const ReduceOptions& options = {});
// The product, in the dtype of the sum; its derivatives are right where elements are 0, too. Costs
// several passes backward.
Tensor prod(const Tensor& x, const ReduceOptions& options = {});

// Of any dtype, where every element but 0 counts as true, NaN too. Boolean and i64 results without
// a gradient; of no elements false, true and 0.
Tensor any(const Tensor& x, const ReduceOptions& options = {});
Tensor all(const Tensor& x, const ReduceOptions& options = {});
Tensor count_nonzero(const Tensor& x, const ReduceOptions& options = {});

// Sums x over the dimensions in which `shape` was broadcast to x's shape: broadcasting's adjoint.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace adret
