// Elements in order, of any dtype. NaN counts as the largest, and equal elements stay in the order
// they had: the same result in every run and on every device. Negative dimensions count from the
// end; one out of range is a ShapeError.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

struct Sorted {
  Tensor values;   // x's dtype; gradients go back to where the values were
  Tensor indices;  // i64, where along the dimension each value was
};

struct SortOptions {
  int dim = -1;
  bool descending = false;
};
Sorted sort(const Tensor& x, const SortOptions& options = {});
// The places alone, i64.
Tensor argsort(const Tensor& x, const SortOptions& options = {});

struct TopkOptions {
  int dim = -1;
  bool largest = true;  // else the smallest
};
// The k largest elements along a dimension, the largest first. All are sorted for it. Throws
// ShapeError unless 0 <= k <= the dimension's size.
Sorted topk(const Tensor& x, int64_t k, const TopkOptions& options = {});

}  // namespace adret
