// Activations written as formulas: Swish, and one with a slope to learn for each channel.
#pragma once

#include <adret/layers/module.h>

namespace custom_layer {

using namespace adret;

// x sigmoid(x) (Ramachandran, Zoph and Le 2017, arXiv:1710.05941).
Tensor swish(const Tensor& x);

// x sigmoid(beta x), from the same paper, with a beta to learn for each channel, the last
// dimension.
class LearnableSwish : public Layer<LearnableSwish> {
 public:
  explicit LearnableSwish(int64_t channels);
  Tensor forward(const Tensor& x);
  LearnableSwish rebuild() const { return LearnableSwish(channels); }

  const int64_t channels;
  Parameter& beta;
};

}  // namespace custom_layer
