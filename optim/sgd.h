// Stochastic gradient descent with momentum.
#pragma once

#include <adret/optim/optimizer.h>

#include <cmath>

namespace adret {

struct SgdOptions {
  double lr = NAN;          // must be given
  double momentum = 0;      // in 0..1
  double weight_decay = 0;  // times the value, added to the gradient
  bool nesterov = false;    // needs momentum
};

// g = gradient + weight_decay * value; m = momentum * m + g;
// value -= lr * (nesterov ? g + momentum * m : m), as PyTorch (Sutskever et al. 2013).
class Sgd final : public Optimizer {
 public:
  // Throws Error for options out of range, and as ParameterArena.
  Sgd(const Module& model, const SgdOptions& options) : Sgd({{model.parameters(), options}}) {}
  explicit Sgd(const std::vector<ParameterGroup<SgdOptions>>& groups);

 private:
  void run_step() override;
};

}  // namespace adret
