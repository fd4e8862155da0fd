// Running sums and products along a dimension, and linear recurrences: of floating tensors, kept in
// f64 within. Sums and products of integers and booleans are i64 and wrap around beyond its range.
// Derivatives of any order are scans again, and right where factors are 0. A dimension out of range
// is a ShapeError.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

struct ScanOptions {
  bool reverse = false;    // from the last element to the first
  bool exclusive = false;  // element i leaves x[i] itself out
};

Tensor cumsum(const Tensor& x, int dim, const ScanOptions& options = {});
Tensor cumprod(const Tensor& x, int dim, const ScanOptions& options = {});

// y[i] = factors[i] * y[i - 1] + terms[i], beginning with terms[0]; 0 times an infinite factor is
// 0. Throws ShapeError for different shapes or dtypes.
Tensor linear_recurrence(const Tensor& factors, const Tensor& terms, int dim);

}  // namespace adret
