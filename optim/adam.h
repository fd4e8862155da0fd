// Adam, and Adam with decoupled weight decay.
#pragma once

#include <adret/optim/optimizer.h>

namespace adret {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // in 0..1, below 1
  double epsilon = 1e-8;
  double weight_decay = 0;  // times the value, added to the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // in 0..1, below 1
  double epsilon = 1e-8;
  double weight_decay = 1e-2;  // value -= lr * weight_decay * value, apart from the gradient
};

// What the two share: m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2,
// value -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon), t counting the steps in
// which the parameter had a gradient.
class AdamFamily : public Optimizer {
 protected:
  template <class Options>
  AdamFamily(const char* name, const std::vector<ParameterGroup<Options>>& groups);

 private:
  void run_step() override;
};

// Kingma and Ba 2015. Throws Error for options out of range, and as ParameterArena.
class Adam final : public AdamFamily {
 public:
  explicit Adam(const Module& model, const AdamOptions& options = {})
      : Adam({{model.parameters(), options}}) {}
  explicit Adam(const std::vector<ParameterGroup<AdamOptions>>& groups);
};

// Loshchilov and Hutter 2019. Throws as Adam.
class AdamW final : public AdamFamily {
 public:
  explicit AdamW(const Module& model, const AdamWOptions& options = {})
      : AdamW({{model.parameters(), options}}) {}
  explicit AdamW(const std::vector<ParameterGroup<AdamWOptions>>& groups);
};

}  // namespace adret
