// The largest and smallest elements with their places, of floats and integers. Of equal ones the
// first counts; NaN wins, and its place is given. Throws ShapeError for no elements to choose from.
#pragma once

#include <adret/core/tensor.h>

#include <optional>

namespace adret {

struct AlongOptions {
  std::optional<int> dim = {};  // none: over all elements, with places in row-major order
  bool keepdim = false;         // reduced dimensions stay, with size 1
};

struct Extremes {
  Tensor values;   // x's dtype; the gradient goes to the element at the place
  Tensor indices;  // i64
};
Extremes max_with_indices(const Tensor& x, const AlongOptions& options = {});
Extremes min_with_indices(const Tensor& x, const AlongOptions& options = {});
// The places alone, i64.
Tensor argmax(const Tensor& x, const AlongOptions& options = {});
Tensor argmin(const Tensor& x, const AlongOptions& options = {});

}  // namespace adret
