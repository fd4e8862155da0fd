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

template <class A>
__device__ inline A at_most(A x, A limit) {
  return x > limit ? limit : x;  // NaN stays
}
template <class A>
__device__ inline A at_least(A x, A limit) {
  return x < limit ? limit : x;
}
template <class A>
__device__ inline A within(A x, A limit) {
  return at_most(at_least(x, -limit), limit);
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
// The derivative of GELU, x normal_cdf(x); beyond 50 it is 0 or 1, of the infinities too.
template <class A>
__device__ inline A gelu_slope(A x) {
  const A near = within(x, A(50));
  return normal_cdf(near) + near * normal_density(near);
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
  x = at_least(x, A(-50));
  if constexpr (sizeof(T) == 2) {
    return x * ShortNormal(x).cdf;
  } else {
    return x * normal_cdf(x);
  }
}
template <class T, class A>
__device__ inline A gelu_slope_of(A x) {
  if constexpr (sizeof(T) == 2) {
    const float near = within(x, 50.f);
    const ShortNormal normal(near);
    return fmaf(near * 0.398942280f, normal.decay, normal.cdf);
  } else {
    return gelu_slope(x);
  }
}

// -- activations ---------------------------------------------------------------------------------

// As core/cpu/elementwise_activation.cpp has it (Note [Limits of activations]): exp(-far) is 0, and
// so is a gelu_tanh or its slope below -gelu_far.
template <class A>
inline constexpr A far = sizeof(A) == 4 ? A(110) : A(750);
template <class A>
inline constexpr A gelu_far = sizeof(A) == 4 ? A(11) : A(22);

// tanh of softplus is w / (w + 2) with w = e (e + 2), e = exp(x); from 20 on that is 1.
template <class A>
__device__ inline A mish(A x) {
  const A near = at_least(x, -far<A>), e = exp(at_most(near, A(20))), w = e * (e + 2);
  return near * (w / (w + 2));
}
template <class A>
__device__ inline A mish_slope(A x) {
  const A near = at_most(at_least(x, -far<A>), A(20)), e = exp(near), w = e * (e + 2);
  const A t = w / (w + 2), rest = 2 / (w + 2);  // rest = 1 - t
  return fma(near * (e / (1 + e)), rest * (1 + t), t);
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
  const A near = within(x, gelu_far<A>);
  return at_least(x, -gelu_far<A>) *
         sigmoid(near * fma(gelu_cubic<A>, near * near, gelu_linear<A>));
}
template <class A>
__device__ inline A gelu_tanh_slope(A x) {
  const A near = within(x, gelu_far<A>), square = near * near;
  const A s = sigmoid(near * fma(gelu_cubic<A>, square, gelu_linear<A>));
  const A inner = near * fma(3 * gelu_cubic<A>, square, gelu_linear<A>);
  return fma(s * (1 - s), inner, s);
}

template <class A>
__device__ inline A silu(A x) {
  const A near = at_least(x, -far<A>);
  return near * sigmoid(near);
}
template <class A>
__device__ inline A silu_slope(A x) {
  const A near = within(x, far<A>), s = sigmoid(near);
  return fma(s * (1 - s), near, s);
}

template <class A>
__device__ inline A hardsigmoid(A x) {
  const A y = fma(x, A(1) / 6, A(0.5));
  return y < 0 ? A(0) : (y > 1 ? A(1) : y);
}
template <class A>
__device__ inline A hardswish(A x) {
  return at_least(x, A(-4)) * hardsigmoid(x);
}
template <class A>
__device__ inline A hardswish_slope(A x) {
  return x <= -3 ? A(0) : (x >= 3 ? A(1) : fma(x, A(1) / 3, A(0.5)));
}

template <class A>
__device__ inline A softsign(A x) {
  const A near = within(x, A(0x1p60));  // 1 + 2^60 is 2^60
  return near / (1 + fabs(near));
}

}  // namespace adret::cuda
