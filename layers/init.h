// Initial values of weights, drawn from the init stream of core/random.h.
#pragma once

#include <adret/core/tensor.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace adret::init {

// Inputs and outputs that meet in one element of a weight (O, ..., I): fan_in = I times the
// kernel's area, fan_out = O times it. Throws ShapeError for less than two dimensions.
struct Fans {
  int64_t in = 0, out = 0;
};
Fans fans(const Shape& weight);

// How much an activation shrinks a signal, to be made up for by the weights.
inline constexpr double linear_gain = 1;  // and sigmoid
inline constexpr double tanh_gain = 5.0 / 3.0;
inline constexpr double relu_gain = std::numbers::sqrt2;
inline double leaky_relu_gain(double slope) { return std::sqrt(2 / (1 + slope * slope)); }

// Each fills a floating tensor in place.
void constant_(const Tensor& x, double value);
void uniform_(const Tensor& x, double low, double high);  // in [low, high)
void normal_(const Tensor& x, double mean, double std);

enum class FanMode { in, out };
struct KaimingOptions {
  FanMode fan = FanMode::in;
  double gain = relu_gain;
};
// Variance gain^2 / fan (He et al. 2015).
void kaiming_uniform_(const Tensor& weight, const KaimingOptions& options = {});
void kaiming_normal_(const Tensor& weight, const KaimingOptions& options = {});

struct XavierOptions {
  double gain = linear_gain;
};
// Variance 2 gain^2 / (fan_in + fan_out) (Glorot and Bengio 2010).
void xavier_uniform_(const Tensor& weight, const XavierOptions& options = {});
void xavier_normal_(const Tensor& weight, const XavierOptions& options = {});

// PyTorch's defaults for linear and convolution layers: weight and bias (may be undefined) uniform
// within 1 / sqrt(fan_in) of zero.
void fan_in_uniform_(const Tensor& weight, const Tensor& bias);

}  // namespace adret::init
