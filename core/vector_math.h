// Elementary functions without branches, so that loops over them vectorise; the result for an
// element does not depend on its place in the loop. f64 uses the C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

namespace adret::cpu {

// Note [Vector math]
// The f32 functions reduce the argument exactly (Cody and Waite 1980) and evaluate a polynomial
// in Horner's form with fused multiply-adds. Their errors are below 2 ulp for exp and log, 3 for
// sigmoid and tanh, 8 for gelu (tests/kernels/elementwise_test.cpp holds them to that); NaN stays
// NaN. The compiler turns the conditional expressions into blends.

// a * b + c, rounded once where the processor can.
template <class T>
T multiply_add(T a, T b, T c) {
#if defined(__FP_FAST_FMAF)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// condition ? a : b, both computed: from arithmetic in one arm of a conditional expression the
// compiler makes a branch, which keeps a loop from being vectorised.
template <class T>
T choose(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits mask = Bits(0) - Bits(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}

// The difference of two floats' representations, wrapping.
inline int32_t bits_between(float from, float to) {
  return int32_t(std::bit_cast<uint32_t>(to) - std::bit_cast<uint32_t>(from));
}

inline float exp(float x) {
  const float bounded = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);  // keeps NaN
  // Adding 1.5 * 2^23 rounds to an integer n and leaves it in the lower bits.
  const float shifted = multiply_add(bounded, 1.44269504f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  float r = multiply_add(n, -0x1.62e4p-1f, bounded);  // ln 2 in two parts
  r = multiply_add(n, -0x1.7f7d1cp-20f, r);
  float p = 1.0f / 5040;
  p = multiply_add(p, r, 1.0f / 720);
  p = multiply_add(p, r, 1.0f / 120);
  p = multiply_add(p, r, 1.0f / 24);
  p = multiply_add(p, r, 1.0f / 6);
  p = multiply_add(p, r, 0.5f);
  p = multiply_add(p * r, r, r) + 1.0f;
  // 2^n as a product of two powers, so that subnormal results and infinity come out right.
  const int32_t exponent = bits_between(0x1.8p23f, shifted);
  const int32_t half = exponent >> 1;
  const float scale0 = std::bit_cast<float>(int32_t(uint32_t(half + 127) << 23));
  const float scale1 = std::bit_cast<float>(int32_t(uint32_t(exponent - half + 127) << 23));
  return p * scale0 * scale1;
}

inline float log(float x) {
  const bool is_small = x < 0x1p-126f;  // subnormal: scale up
  const float scaled = is_small ? x * 0x1p25f : x;
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  const int32_t shifted = bits_between(0x1.6a09e6p-1f, scaled);
  const float e = float(shifted >> 23) - (is_small ? 25.0f : 0.0f);
  const uint32_t power = uint32_t(shifted) & 0xff800000u;
  const float f = std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) - power) - 1.0f;
  // log(1 + f) = f - f^2/2 + f^3 p(f), with p of degree 8 (Moshier 1992).
  float p = 7.0376836292e-2f;
  p = multiply_add(p, f, -1.1514610310e-1f);
  p = multiply_add(p, f, 1.1676998740e-1f);
  p = multiply_add(p, f, -1.2420140846e-1f);
  p = multiply_add(p, f, 1.4249322787e-1f);
  p = multiply_add(p, f, -1.6668057665e-1f);
  p = multiply_add(p, f, 2.0000714765e-1f);
  p = multiply_add(p, f, -2.4999993993e-1f);
  p = multiply_add(p, f, 3.3333331174e-1f);
  const float square = f * f;
  float tail = multiply_add(p * f, square, e * -2.12194440e-4f);
  tail = multiply_add(square, -0.5f, tail);
  const float value = multiply_add(e, 0.693359375f, f + tail);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float positive = x == infinity ? x : value;
  const float nonzero = x >= 0 ? positive : std::numeric_limits<float>::quiet_NaN();
  return x == 0 ? -infinity : nonzero;
}

inline float sigmoid(float x) {
  const float z = cpu::exp(-std::fabs(x));
  return (x >= 0 ? 1.0f : z) / (1.0f + z);
}

inline float tanh(float x) {
  const float magnitude = std::fabs(x);
  // Near 0 a polynomial in x^2 (Moshier 1992), else through exp.
  const float square = x * x;
  float p = -5.70498872745e-3f;
  p = multiply_add(p, square, 2.06390887954e-2f);
  p = multiply_add(p, square, -5.37397155531e-2f);
  p = multiply_add(p, square, 1.33314422036e-1f);
  p = multiply_add(p, square, -3.33332819422e-1f);
  const float near = multiply_add(p * square, x, x);
  const float far = std::copysign(1.0f - 2.0f / (cpu::exp(2.0f * magnitude) + 1.0f), x);
  return magnitude < 0.625f ? near : (x == x ? far : x);
}

// p(t) in erfc(z) = t exp(-z^2 + p(t)) for z >= 0, t = 2 / (2 + z): a Chebyshev fit within 1.2e-7
// of the result (Press et al., Numerical Recipes, 2nd edition, section 6.2).
template <class T>
T erfc_exponent(T t) {
  T p = T(0.17087277);
  p = multiply_add(p, t, T(-0.82215223));
  p = multiply_add(p, t, T(1.48851587));
  p = multiply_add(p, t, T(-1.13520398));
  p = multiply_add(p, t, T(0.27886807));
  p = multiply_add(p, t, T(-0.18628806));
  p = multiply_add(p, t, T(0.09678418));
  p = multiply_add(p, t, T(0.37409196));
  p = multiply_add(p, t, T(1.00002368));
  return multiply_add(p, t, T(-1.26551223));
}

// The normal distribution beyond |x|: erfc(z) / 2 at z = |x| / sqrt(2).
inline float normal_tail(float any) {
  const float magnitude = std::fabs(any);
  const float x = magnitude > 16.0f ? 16.0f : magnitude;  // 0 from there on; keeps NaN
  const float z = x * 0.707106781f;
  const float t = 1.0f / multiply_add(0.5f, z, 1.0f);
  const float p = erfc_exponent(t);
  // z^2 = x^2 / 2 without the rounding error of the square, which exp would magnify.
  const float square = x * x;
  const float lost = multiply_add(x, x, -square);
  // exp(a + b) = exp(sum) (1 + what the sum lost), Knuth's two-sum.
  const float a = -0.5f * square, sum = a + p, b = sum - a;
  const float rest = (a - (sum - b)) + (p - b) - 0.5f * lost;
  const float exponential = cpu::exp(sum);
  return 0.5f * t * multiply_add(exponential, rest, exponential);
}

inline double exp(double x) { return std::exp(x); }
inline double log(double x) { return std::log(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double sigmoid(double x) {
  const double z = std::exp(-std::fabs(x));
  return (x >= 0 ? 1.0 : z) / (1.0 + z);
}
inline double normal_tail(double x) {
  return 0.5 * std::erfc(std::fabs(x) * (std::numbers::sqrt2 / 2));
}

// NaN wins on either side.
template <class T>
T larger(T a, T b) {
  return (a > b) | (a != a) ? a : b;
}
template <class T>
T smaller(T a, T b) {
  return (a < b) | (a != a) ? a : b;
}

// The normal distribution's cumulative function, accurate in both tails.
template <class T>
T normal_cdf(T x) {
  const T tail = normal_tail(x);
  return x > 0 ? 1 - tail : tail;
}

template <class T>
T normal_density(T x) {
  return T(std::numbers::inv_sqrtpi / std::numbers::sqrt2) * cpu::exp(T(-0.5) * x * x);
}

}  // namespace adret::cpu
