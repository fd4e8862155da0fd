// Adam, and what came of it: decoupled weight decay, Nesterov's momentum, a rectified start.
#pragma once

#include <adret/core/kernels/optimizer.h>
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

struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9, beta2 = 0.999;  // in 0..1, below 1
  double epsilon = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  // as AdamW's
};

struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;  // in 0..1, below 1
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // as AdamW's
};

// What they share: m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2,
// value -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon), t counting the steps in
// which the parameter had a gradient.
class AdamFamily : public Optimizer {
 protected:
  template <class Options>
  explicit AdamFamily(const std::vector<ParameterGroup<Options>>& groups);

 private:
  void run_step() override;

  kernels::AdamRule rule_;
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

// The gradient and the coming step's momentum in the place of m / (1 - beta1^t) (Dozat 2016):
//   mu(t+1) * m / (1 - P(t+1)) + (1 - mu(t)) * g / (1 - P(t)), where
//   mu(t) = beta1 * (1 - 0.96^(t * momentum_decay) / 2) and P(t) = mu(1) * ... * mu(t).
// Throws as Adam.
class NAdam final : public AdamFamily {
 public:
  explicit NAdam(const Module& model, const NAdamOptions& options = {})
      : NAdam({{model.parameters(), options}}) {}
  explicit NAdam(const std::vector<ParameterGroup<NAdamOptions>>& groups);
};

// A step is multiplied with the root of the variance that v has over the one it will have
// (kernels::AdamStep has the formula); as long as v averages fewer than 5 gradients, it is momentum
// alone: value -= lr * m / (1 - beta1^t) (Liu et al. 2020). Throws as Adam.
class RAdam final : public AdamFamily {
 public:
  explicit RAdam(const Module& model, const RAdamOptions& options = {})
      : RAdam({{model.parameters(), options}}) {}
  explicit RAdam(const std::vector<ParameterGroup<RAdamOptions>>& groups);
};

}  // namespace adret
