// Adam's step scaled to the size of each parameter, for large batches.
#pragma once

#include <adret/optim/optimizer.h>

namespace adret {

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // in 0..1, below 1
  double epsilon = 1e-6;
  double weight_decay = 0.01;
};

// With m and v of Adam, u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) +
// weight_decay * value and value -= lr * |value| / |u| * u, where |x| is the 2-norm of a whole
// parameter; the ratio is 1 if one of the norms is 0 (You et al. 2020, "Large batch optimization
// for deep learning").
class Lamb final : public Optimizer {
 public:
  // Throws Error for options out of range, and as ParameterArena.
  explicit Lamb(const Module& model, const LambOptions& options = {})
      : Lamb({{model.parameters(), options}}) {}
  explicit Lamb(const std::vector<ParameterGroup<LambOptions>>& groups);

 private:
  void run_step() override;
};

}  // namespace adret
