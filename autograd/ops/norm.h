// Batch normalisation (Ioffe and Szegedy 2015).
#pragma once

#include <adret/core/kernels/norm.h>
#include <adret/core/tensor.h>

namespace adret {

using kernels::Activation;

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;       // weight of the new statistics in the running ones
  Tensor num_batches_tracked;  // scalar i64 that training raises by one, or undefined
  double epsilon = 1e-5;
  Tensor residual;                           // like x, or undefined; added before the activation
  Activation activation = Activation::none;  // or relu
};

// Normalises x (..., C) per channel: in training with the statistics of x, which also update
// running_mean and running_var (C) in place; else with the running ones. The result is
// activation(normalised x * weight + bias + residual). All but x may be undefined, the running ones
// only in training. Throws ShapeError for a single value per channel in training.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});

}  // namespace adret
