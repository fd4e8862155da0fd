// Steps of equal size in every element, by the sign of a momentum.
#pragma once

#include <adret/optim/optimizer.h>

namespace adret {

struct LionOptions {
  double lr = 1e-4;                  // 3 to 10 times smaller than Adam's
  double beta1 = 0.9, beta2 = 0.99;  // in 0..1, below 1
  double weight_decay = 0;  // value -= lr * weight_decay * value; 3 to 10 times larger than AdamW's
};

// value -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * value);
// m = beta2 * m + (1 - beta2) * g (Chen et al. 2023, "Symbolic discovery of optimization
// algorithms").
class Lion final : public Optimizer {
 public:
  // Throws Error for options out of range, and as ParameterArena.
  explicit Lion(const Module& model, const LionOptions& options = {})
      : Lion({{model.parameters(), options}}) {}
  explicit Lion(const std::vector<ParameterGroup<LionOptions>>& groups);

 private:
  void run_step() override;
};

}  // namespace adret
