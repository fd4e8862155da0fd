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
inline constexpr double selu_gain = 3.0 / 4;
inline double leaky_relu_gain(double slope) { return std::sqrt(2 / (1 + slope * slope)); }

// Each of these and of those below fills a tensor in place; throws ShapeError unless it is
// floating.
void zeros_(const Tensor& x);
void ones_(const Tensor& x);
void constant_(const Tensor& x, double value);
// In [low, high), low where both are equal. Throws Error unless both are finite, in order, and
// their distance is finite in f32 (f64 for f64).
void uniform_(const Tensor& x, double low, double high);
void normal_(const Tensor& x, double mean, double std);  // throws Error unless finite, and std >= 0

struct TruncatedNormalOptions {
  double mean = 0, std = 1;
  double low = -2, high = 2;  // values, not deviations
};
// A normal of which only what lies in low..high is kept, be it ever so far out. Throws Error unless
// mean and std are finite, std is above 0 and low below high.
void trunc_normal_(const Tensor& x, const TruncatedNormalOptions& options = {});

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

// Rows or columns, whichever are fewer, of the weight as a matrix (O, ...) are orthonormal times
// the gain: Q of the QR factorisation of a normal matrix, R's diagonal being positive, worked out
// on the CPU in f64 (Saxe et al. 2014). Throws ShapeError for less than two dimensions.
struct OrthogonalOptions {
  double gain = linear_gain;
};
void orthogonal_(const Tensor& weight, const OrthogonalOptions& options = {});

// Normal, but in each column of a weight (rows, columns) as many elements are 0 as the share says,
// rounded up (Martens 2010). Throws ShapeError for other than two dimensions, and Error for a share
// outside 0..1.
struct SparseOptions {
  double sparsity = NAN;  // the share of zeros; must be given
  double std = 0.01;
};
void sparse_(const Tensor& weight, const SparseOptions& options);

// The identity: ones on the diagonal of a weight (O, I), else zeros. Throws ShapeError for other
// than two dimensions.
void eye_(const Tensor& weight);

// A convolution that passes its input on: channel i to output i, as many as there are, in each
// group; weight (O, KH, KW, I / groups), or with one or three kernel dimensions. Throws ShapeError
// for other shapes, and where the groups do not divide the outputs.
struct DiracOptions {
  int64_t groups = 1;
};
void dirac_(const Tensor& weight, const DiracOptions& options = {});

// PyTorch's defaults for linear and convolution layers: weight and bias (may be undefined) uniform
// within 1 / sqrt(fan_in) of zero.
void fan_in_uniform_(const Tensor& weight, const Tensor& bias);

}  // namespace adret::init
