// Normalisation of each sample by itself. Statistics and parameters are f32, or f64 for f64 x; a
// weight and bias may be undefined. 16-bit floats are computed in f32 and rounded once. All can be
// differentiated again. Throw ShapeError for parameters of another shape or dtype, and where there
// is nothing to normalise.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

struct LayerNormOptions {
  int dims = 1;  // trailing dimensions that are normalised together
  double epsilon = 1e-5;
};

// (x - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and biased variance over the
// trailing dimensions, whose shape weight and bias have (Ba et al. 2016).
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  const LayerNormOptions& options = {});
// x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich 2019).
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, const LayerNormOptions& options = {});

// A residual's sum and its normalisation, in one kernel each way.
struct NormedSum {
  Tensor sum, y;
};
// x + added, and layer_norm or rms_norm of that. Throws ShapeError unless x and added are alike.
NormedSum layer_norm_of_sum(const Tensor& x, const Tensor& added, const Tensor& weight = {},
                            const Tensor& bias = {}, const LayerNormOptions& options = {});
NormedSum rms_norm_of_sum(const Tensor& x, const Tensor& added, const Tensor& weight = {},
                          const LayerNormOptions& options = {});

struct GroupNormOptions {
  double epsilon = 1e-5;
};

// x (N, ..., C) normalised over its places and the C / groups neighbouring channels of each group;
// weight and bias (C) (Wu and He 2018). Throws ShapeError unless the groups divide the channels.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, const GroupNormOptions& options = {});
// A group for each channel (Ulyanov et al. 2016). Throws ShapeError for a single place.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     const GroupNormOptions& options = {});

}  // namespace adret
