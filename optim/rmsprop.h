// Steps divided by the root of averaged squared gradients.
#pragma once

#include <adret/optim/optimizer.h>

namespace adret {

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // in 0..1, below 1
  double epsilon = 1e-8;
  double weight_decay = 0;  // times the value, added to the gradient
  double momentum = 0;      // in 0..1
  bool centered = false;    // divides by the deviation of the gradients, in place of their root
};

// squares = alpha * squares + (1 - alpha) * g^2; mean = alpha * mean + (1 - alpha) * g if centered;
// m = momentum * m + g / (sqrt(squares - (centered ? mean^2 : 0)) + epsilon); value -= lr * m
// (Tieleman and Hinton 2012; centered: Graves 2013), as PyTorch.
class Rmsprop final : public Optimizer {
 public:
  // Throws Error for options out of range, and as ParameterArena.
  explicit Rmsprop(const Module& model, const RmspropOptions& options = {})
      : Rmsprop({{model.parameters(), options}}) {}
  explicit Rmsprop(const std::vector<ParameterGroup<RmspropOptions>>& groups);

 private:
  void run_step() override;
};

}  // namespace adret
