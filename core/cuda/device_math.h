// Functions of one number on the device, defined as in core/vector_math.h: accurate ones, of
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

// exp where the result's precision is that of T's elements.
template <class T, class A>
__device__ inline A exp_of(A x) {
  if constexpr (sizeof(T) == 2) {
    return __expf(x);
  } else {
    return exp(x);
  }
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

// The normal distribution for x that comes from 16 bits and goes there: its cumulative function,
// good to 6e-6 of the result in both tails, and exp(-x^2 / 2). The scaled complementary error
// function of z = |x| / sqrt(2) is t P(t) with t = 1 / (1 + 0.44 z); P is fitted to it, halved, up
// to z = 9.5.
struct ShortNormal {
  float cdf, decay;
  __device__ explicit ShortNormal(float x) {
    const float t = __fdividef(1.f, fmaf(fabsf(x), 0.311126984f, 1.f));
    float fit = fmaf(t, -0.073052997f, 0.175326657f);
    for (const float term : {0.0203651625f, 0.13179335f, 0.121284732f, 0.124280512f}) {
      fit = fmaf(t, fit, term);
    }
    decay = __expf(-0.5f * x * x);
    const float tail = t * fit * decay;
    cdf = x >= 0 ? 1.f - tail : tail;
  }
};
// GELU and its derivative of an element of T. Below -50 it is 0, of minus infinity too.
template <class T, class A>
__device__ inline A gelu_of(A x) {
  x = x < -50 ? A(-50) : x;  // NaN stays
  if constexpr (sizeof(T) == 2) {
    return x * ShortNormal(x).cdf;
  } else {
    return x * normal_cdf(x);
  }
}
template <class T, class A>
__device__ inline A gelu_slope_of(A x) {
  if constexpr (sizeof(T) == 2) {
    const ShortNormal normal(x);
    return fmaf(x * 0.398942280f, normal.decay, normal.cdf);
  } else {
    return gelu_slope(x);
  }
}

// -- activations ---------------------------------------------------------------------------------

// tanh of softplus is w / (w + 2) with w = e (e + 2), e = exp(x); from 20 on that is 1.
template <class A>
__device__ inline A mish_weight(A x) {
  const A e = exp(x > 20 ? A(20) : x);
  return e * (e + 2);
}
template <class A>
__device__ inline A mish_slope(A x) {
  const A w = mish_weight(x), t = w / (w + 2), rest = 2 / (w + 2);  // rest = 1 - t
  const A near = x > 20 ? A(20) : x;  // beyond, the rest times x is rounding
  return fma(near * sigmoid(near), rest * (1 + t), t);
}

// log(1 + exp(alpha x)) / alpha, and x where alpha x is larger than the threshold.
template <class A>
__device__ inline A softplus(A x, A alpha, A threshold) {
  const A z = alpha * x;
  const A value = ((z > 0 ? z : A(0)) + log1p(exp(-fabs(z)))) / alpha;
  return z > threshold ? x : (x == x ? value : x);
}
template <class A>
__device__ inline A softplus_slope(A x, A alpha, A threshold) {
  return alpha * x > threshold ? A(1) : sigmoid(alpha * x);
}

// The approximation of gelu is x sigmoid(2u), with 2u = x (linear + cubic x^2) and linear = sqrt(8
// / pi).
template <class A>
inline constexpr A gelu_linear = A(1.59576912160573071176);
template <class A>
inline constexpr A gelu_cubic = gelu_linear<A>* A(0.044715);
template <class A>
__device__ inline A gelu_tanh(A x) {
  return x * sigmoid(x * fma(gelu_cubic<A>, x * x, gelu_linear<A>));
}
template <class A>
__device__ inline A gelu_tanh_slope(A x) {
  const A square = x * x, s = sigmoid(x * fma(gelu_cubic<A>, square, gelu_linear<A>));
  const A inner = x * fma(3 * gelu_cubic<A>, square, gelu_linear<A>);
  return fma(s * (1 - s), inner, s);
}

template <class A>
__device__ inline A silu_slope(A x) {
  const A s = sigmoid(x);
  return fma(s * (1 - s), x, s);
}

template <class A>
__device__ inline A hardsigmoid(A x) {
  const A y = fma(x, A(1) / 6, A(0.5));
  return y < 0 ? A(0) : (y > 1 ? A(1) : y);
}
template <class A>
__device__ inline A hardswish_slope(A x) {
  return x <= -3 ? A(0) : (x >= 3 ? A(1) : fma(x, A(1) / 3, A(0.5)));
}

}  // namespace adret::cuda
