// Losses of the difference of a prediction and its target, which have equal shapes, or ShapeError.
// Computed, and given, in f32, or f64 for f64 operands.
#pragma once

#include <adret/core/kernels/loss.h>
#include <adret/core/tensor.h>

namespace adret {

using kernels::Reduction;

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

// (prediction - target)^2.
Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
// |prediction - target|; derivative 0 at 0.
Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

struct SmoothL1Options {
  double beta = 1;  // at least 0, which makes it l1_loss
  Reduction reduction = Reduction::mean;
};
// d^2 / (2 beta) for differences |d| below beta, else |d| - beta / 2 (Girshick 2015).
Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target,
                      const SmoothL1Options& options = {});

struct HuberOptions {
  double delta = 1;  // above 0
  Reduction reduction = Reduction::mean;
};
// d^2 / 2 for differences |d| up to delta, else delta (|d| - delta / 2) (Huber 1964).
Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options = {});

}  // namespace adret
