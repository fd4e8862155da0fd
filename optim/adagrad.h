// Steps divided by the root of all squared gradients so far.
#pragma once

#include <adret/optim/optimizer.h>

namespace adret {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;               // times the value, added to the gradient
  double initial_accumulator_value = 0;  // of the sums; no part of the saved hyper-parameters
  double epsilon = 1e-10;
};

// sum += g^2; value -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum) + epsilon), t counting the
// steps in which the parameter had a gradient (Duchi, Hazan and Singer 2011), as PyTorch.
class Adagrad final : public Optimizer {
 public:
  // Throws Error for options out of range, and as ParameterArena.
  explicit Adagrad(const Module& model, const AdagradOptions& options = {})
      : Adagrad({{model.parameters(), options}}) {}
  explicit Adagrad(const std::vector<ParameterGroup<AdagradOptions>>& groups);

 private:
  void run_step() override;
};

}  // namespace adret
