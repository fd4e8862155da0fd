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

}  // namespace adret
