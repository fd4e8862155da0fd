// Dropout as a layer.
#pragma once

#include <adret/autograd/ops/dropout.h>
#include <adret/layers/module.h>

namespace adret {

// In training zeroes elements with probability p and scales the others by 1 / (1 - p); the identity
// in evaluation.
class Dropout : public Layer<Dropout> {
 public:
  explicit Dropout(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return dropout(x, p, training()); }
  Dropout rebuild() const { return Dropout(p); }

  const double p;
};

// The same for whole channels of images (N, H, W, C); see dropout2d.
class Dropout2d : public Layer<Dropout2d> {
 public:
  explicit Dropout2d(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return dropout2d(x, p, training()); }
  Dropout2d rebuild() const { return Dropout2d(p); }

  const double p;
};

// The same for whole samples (N, ...); see drop_path.
class DropPath : public Layer<DropPath> {
 public:
  explicit DropPath(double p = 0.1);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return drop_path(x, p, training()); }
  DropPath rebuild() const { return DropPath(p); }

  const double p;
};

}  // namespace adret
