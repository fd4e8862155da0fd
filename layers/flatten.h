// From images to the vectors that linear layers take, and back to dimensions.
#pragma once

#include <adret/autograd/ops/shape.h>
#include <adret/layers/module.h>

namespace adret {

// (N, H, W, C) -> (N, C H W) in PyTorch's order, volumes alike; (N, ...) -> (N, elements).
struct Flatten : Layer<Flatten> {
  Tensor forward(const Tensor& x) { return flatten(x); }
  Flatten rebuild() const { return Flatten(); }
};

// One dimension as several, as PyTorch's: Unflatten(1, {3, 4}) of (N, 12) is (N, 3, 4). It turns
// nothing round, so it is not the inverse of Flatten for images.
struct Unflatten : Layer<Unflatten> {
  // `dim` may count from the end. forward throws ShapeError for a dimension out of range, and sizes
  // that do not make up the one there.
  Unflatten(int dim, const Shape& sizes);  // throws Error for no sizes
  Tensor forward(const Tensor& x);
  Unflatten rebuild() const { return Unflatten(dim, sizes); }
  const int dim;
  const Shape sizes;
};

}  // namespace adret
