// Losses that are negative logarithms of likelihoods. Operands have equal shapes, or ShapeError.
// Computed, and given, in f32, or f64 for f64 operands; all can be differentiated in each operand.
#pragma once

#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/tensor.h>

namespace adret {

struct PoissonNllOptions {
  bool log_input = true;  // x is the logarithm of the rate, instead of the rate
  // Adds Stirling's approximation of log(target!) for targets above 1; else it is left out.
  bool full = false;
  double epsilon = 1e-8;  // added to a rate before its logarithm is taken
  Reduction reduction = Reduction::mean;
};
// Of counts: rate - target log(rate).
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                        const PoissonNllOptions& options = {});

struct GaussianNllOptions {
  bool full = false;  // adds log(2 pi) / 2
  // Smaller variances count as this large; their derivative is the one there (as PyTorch's).
  double epsilon = 1e-6;
  Reduction reduction = Reduction::mean;
};
// (log(variance) + (x - target)^2 / variance) / 2, x being the mean (Nix and Weigend 1994).
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& variance,
                         const GaussianNllOptions& options = {});

}  // namespace adret
