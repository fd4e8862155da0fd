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

Tensor sum(const Tensor& x, const ReduceOptions& options = {});
Tensor mean(const Tensor& x, const ReduceOptions& options = {});
// The largest (smallest) elements; equal ones share the gradient. Throws ShapeError for no
// elements.
Tensor max(const Tensor& x, const ReduceOptions& options = {});
Tensor min(const Tensor& x, const ReduceOptions& options = {});
// Sums x over the dimensions in which `shape` was broadcast to x's shape: broadcasting's adjoint.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace adret
