// Functions of one number on the device, defined as in core/cpu/vector_math.h: accurate ones, of
// f32 and f64.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace adret::cuda {

// NaN wins on either side.
template <class A>
__device__ inline A larger(A a, A b) {
  return (a > b) | (a != a) ? a : b;
}
template <class A>
__device__ inline A smaller(A a, A b) {
  return (a < b) | (a != a) ? a : b;
}

template <class A>
__device__ inline A sigmoid(A x) {
  const A z = exp(-fabs(x));
  return (x >= 0 ? A(1) : z) / (A(1) + z);
}

// The normal distribution's cumulative function, accurate in both tails, and its density.
__device__ inline float normal_cdf(float x) { return normcdff(x); }
__device__ inline double normal_cdf(double x) { return normcdf(x); }
template <class A>
__device__ inline A normal_density(A x) {
  return A(0.398942280401432677939946) * exp(A(-0.5) * x * x);
}
// The derivative of GELU, x normal_cdf(x).
template <class A>
__device__ inline A gelu_slope(A x) {
  return normal_cdf(x) + x * normal_density(x);
}

}  // namespace adret::cuda
