// Normalisation of each sample by itself: layer norm (Ba et al. 2016), RMS norm (Zhang and Sennrich
// 2019), group norm (Wu and He 2018) and instance norm (Ulyanov et al. 2016).
#pragma once

#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

// x (N, S, C): mean and biased variance over the S places and C / groups channels of a group; s = x
// + added; y = (s - mean) * rstd * weight + bias with rstd = 1 / sqrt(variance + epsilon). Layer
// norm has one place and one group, instance norm a group for each channel. Without `centered` mean
// counts as 0, in the variance too: RMS norm. weight and bias (C) are f32, or f64 for f64 x, as are
// mean and rstd (N, groups), which the backward pass wants; mean is undefined without `centered`.
// `added` (like x), weight, bias, `sum` (like x; gets s), mean and rstd may be undefined.
struct GroupNormForward {
  static constexpr const char* name = "group_norm_forward";
  TensorView x, added, weight, bias, sum, y, mean, rstd;
  int64_t groups = 1;
  double epsilon = 1e-5;
  bool centered = true;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"added", added}, Operand{"weight", weight},
                    Operand{"bias", bias});
  }
  auto outputs() const {
    return operands(Operand{"sum", sum}, Operand{"y", y}, Operand{"mean", mean},
                    Operand{"rstd", rstd});
  }
  double flops() const { return 8.0 * double(x.numel()); }
  std::string params() const;
};

// x is what was normalised, s above; dx = the gradient through the normalisation, the terms of mean
// and variance included, + dsum (like x, or undefined: the gradient that s has elsewhere). weight
// is as in the forward pass; dx, dweight and dbias (C) may be undefined.
struct GroupNormBackward {
  static constexpr const char* name = "group_norm_backward";
  TensorView x, dy, dsum, weight, mean, rstd, dx, dweight, dbias;
  int64_t groups = 1;
  bool centered = true;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"dy", dy}, Operand{"dsum", dsum},
                    Operand{"weight", weight}, Operand{"mean", mean}, Operand{"rstd", rstd});
  }
  auto outputs() const {
    return operands(Operand{"dx", dx}, Operand{"dweight", dweight}, Operand{"dbias", dbias});
  }
  double flops() const { return 14.0 * double(x.numel()); }
  std::string params() const;
};

}  // namespace adret::kernels
