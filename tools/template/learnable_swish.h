// Swish with a slope to learn for each channel.
#pragma once

#include <adret/layers/module.h>

// x sigmoid(beta x) (Ramachandran, Zoph and Le 2017, arXiv:1710.05941): x is (..., channels), and
// beta (channels).
struct LearnableSwish : adret::Layer<LearnableSwish> {
  adret::Parameter& beta;

  explicit LearnableSwish(int64_t channels);
  adret::Tensor forward(const adret::Tensor& x);
  LearnableSwish rebuild() const;
};
