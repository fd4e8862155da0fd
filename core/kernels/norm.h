// Batch normalisation over every dimension but the last (Ioffe and Szegedy 2015).
#pragma once

#include <adret/core/kernels/matmul.h>
#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

// Training: mean and biased variance of x (..., C) per channel; y = activation((x - mean) * rstd *
// weight + bias + residual) with rstd = 1 / sqrt(variance + epsilon). running = (1 - momentum) *
// running + momentum * new, the variance unbiased; num_batches (scalar i64) counts the calls.
// Statistics and parameters (C) are f32, f64 for f64 x; weight, bias, residual (like x), the
// running ones and num_batches may be undefined. The activation is none or relu, in all three
// kernels.
struct BatchNormForward {
  static constexpr const char* name = "batch_norm_forward";
  TensorView x, weight, bias, residual, running_mean, running_var, num_batches, y, mean, rstd;
  double momentum = 0.1, epsilon = 1e-5;
  Activation activation = Activation::none;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"weight", weight}, Operand{"bias", bias},
                    Operand{"residual", residual}, Operand{"running_mean", running_mean},
                    Operand{"running_var", running_var}, Operand{"num_batches", num_batches});
  }
  auto outputs() const {
    return operands(Operand{"y", y}, Operand{"mean", mean}, Operand{"rstd", rstd},
                    Operand{"running_mean", running_mean}, Operand{"running_var", running_var},
                    Operand{"num_batches", num_batches});
  }
  double flops() const { return 8.0 * double(x.numel()); }
  std::string params() const;
};

// y = activation((x - mean) / sqrt(var + epsilon) * weight + bias + residual) with given
// statistics.
struct BatchNormInference {
  static constexpr const char* name = "batch_norm_inference";
  TensorView x, weight, bias, residual, mean, var, y;
  double epsilon = 1e-5;
  Activation activation = Activation::none;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"weight", weight}, Operand{"bias", bias},
                    Operand{"residual", residual}, Operand{"mean", mean}, Operand{"var", var});
  }
  auto outputs() const { return operands(Operand{"y", y}); }
  double flops() const { return 2.0 * double(x.numel()); }
  std::string params() const;
};

// Gradients through the training form, the terms of mean and variance included. With relu, dy
// counts where y > 0: y is given, or, if there was no residual, may be undefined and is computed
// again from x, weight and bias, the latter read for nothing else. dresidual is dy where it counts.
// dx, dweight, dbias and dresidual may be undefined. With `dy_added`, which may be undefined too,
// dy is the sum of both; it needs relu, y and dresidual.
struct BatchNormBackward {
  static constexpr const char* name = "batch_norm_backward";
  TensorView x, dy, dy_added, y, weight, bias, mean, rstd, dx, dweight, dbias, dresidual;
  Activation activation = Activation::none;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"dy", dy}, Operand{"dy_added", dy_added},
                    Operand{"y", y}, Operand{"weight", weight}, Operand{"bias", bias},
                    Operand{"mean", mean}, Operand{"rstd", rstd});
  }
  auto outputs() const {
    return operands(Operand{"dx", dx}, Operand{"dweight", dweight}, Operand{"dbias", dbias},
                    Operand{"dresidual", dresidual});
  }
  double flops() const { return 11.0 * double(x.numel()); }
  std::string params() const;
};

}  // namespace adret::kernels
