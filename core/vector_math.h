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
// with fused multiply-adds. Loops over them wait for chains of operations rather than for the units
// that do them, so polynomials are cut into short chains. Errors are below 2 ulp for exp and log, 3
// for sigmoid, tanh and atan2, 8 for gelu (tests/kernels/elementwise_test.cpp and
// elementwise_binary_test.cpp hold them to that); NaN stays NaN. The compiler turns the conditional
// expressions into blends. Coefficients without a source are fits that keep the largest relative
// error of the result small.

// a * b + c, rounded once where the processor can.
template <class T>
T multiply_add(T a, T b, T c) {
#if defined(__FP_FAST_FMAF)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

// Note [Bounds out of sight]
// Of `x > bound ? bound : x` g++ 12 makes one instruction, unless it knows the bound: then it keeps
// the comparison apart and blends, and more so for a bound on each side. These are defined where
// the compiler does not see them, in vector_math.cpp.
extern const float exp_lowest, exp_highest;  // exp is 0 and infinity from there on
extern const float largest_float;

// condition ? a : b, both computed: from arithmetic in one arm of a conditional expression the
// compiler makes a branch, which keeps a loop from being vectorised.
template <class T>
T choose(bool condition, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const Bits mask = Bits(0) - Bits(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
}

// c0 + c1 x + c2 x^2 + ...: a chain half as long as Horner's, in powers of `square` = x^2.
template <class T>
T polynomial(T, T, T c0) {
  return c0;
}
template <class T, class... Rest>
T polynomial(T x, T square, T c0, T c1, Rest... rest) {
  const T pair = multiply_add(c1, x, c0);
  if constexpr (sizeof...(rest) == 0) {
    return pair;
  } else {
    return multiply_add(polynomial(x, square, rest...), square, pair);
  }
}

// The difference of two floats' representations, wrapping.
inline int32_t bits_between(float from, float to) {
  return int32_t(std::bit_cast<uint32_t>(to) - std::bit_cast<uint32_t>(from));
}

// x = n ln 2 + rest, for |x| < 2^21; `power` is n where a float's exponent is.
struct Exponent {
  uint32_t power;
  float rest;
};
inline Exponent split_exponent(float x) {
  // Adding 1.5 * 2^23 rounds to an integer n and leaves it in the lower bits.
  const float shifted = multiply_add(x, 1.44269504f, 0x1.8p23f);
  const float n = shifted - 0x1.8p23f;
  const float rest = multiply_add(n, -0x1.62e4p-1f, x);  // ln 2 in two parts
  return {std::bit_cast<uint32_t>(shifted) << 23, multiply_add(n, -0x1.7f7d1cp-20f, rest)};
}

// 2^(n + more), which must be a normal number.
inline float power_of_two(uint32_t power, int more) {
  return std::bit_cast<float>(power + (uint32_t(more + 127) << 23));
}

// exp(r) - 1 for |r| <= ln(2) / 2.
inline float expm1_rest(float r) {
  const float square = r * r;
  const float p =
      polynomial(r, square, 0.5f, 0.166665487f, 0.0416668542f, 0.00836603923f, 0.00138982243f);
  return multiply_add(p, square, r);
}

// 2^n as a product of two powers, so that subnormal results and infinity come out right.
inline float exp(float x) {
  const float raised = x < exp_lowest ? exp_lowest : x;
  const Exponent split = split_exponent(raised > exp_highest ? exp_highest : raised);
  // The sign bit, where an exponent has 128: 2^64 and 2^-64, or the other way round.
  const uint32_t sign = (std::bit_cast<uint32_t>(x) >> 1) & (uint32_t(128) << 23);
  const float scale = power_of_two(split.power + sign, -64);
  const float rest = std::bit_cast<float>((uint32_t(191) << 23) - sign);
  return multiply_add(expm1_rest(split.rest), scale, scale) * rest;
}

// exp(x) for x from -120 to 0.
inline float exp_within(const Exponent& split) {
  const float scale = power_of_two(split.power, 64);
  return multiply_add(expm1_rest(split.rest), scale, scale) * 0x1p-64f;
}

// exp(x) for x <= 0, with fewer operations.
inline float exp_down(float x) {
  return exp_within(split_exponent(x < exp_lowest ? exp_lowest : x));
}

// exp(x) - 1 for x <= 0, within 2 ulp.
inline float expm1_down(float x) {
  const Exponent split = split_exponent(x < -60.0f ? -60.0f : x);
  const float scale = power_of_two(split.power, 0);
  return multiply_add(expm1_rest(split.rest), scale, scale - 1.0f);
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
  const float square = f * f;
  const float p = polynomial(f, square, 3.3333331174e-1f, -2.4999993993e-1f, 2.0000714765e-1f,
                             -1.6668057665e-1f, 1.4249322787e-1f, -1.2420140846e-1f,
                             1.1676998740e-1f, -1.1514610310e-1f, 7.0376836292e-2f);
  float tail = multiply_add(p * f, square, e * -2.12194440e-4f);
  tail = multiply_add(square, -0.5f, tail);
  const float value = multiply_add(e, 0.693359375f, f + tail);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float positive = x == infinity ? x : value;
  const float nonzero = x >= 0 ? positive : std::numeric_limits<float>::quiet_NaN();
  return x == 0 ? -infinity : nonzero;
}

inline float sigmoid(float x) {
  const float z = exp_down(-std::fabs(x));
  return (x >= 0 ? 1.0f : z) / (1.0f + z);
}

inline float tanh(float x) {
  const float magnitude = std::fabs(x);
  // Near 0 a polynomial in x^2 (Moshier 1992), else through exp.
  const float square = x * x;
  const float p = polynomial(square, square * square, -3.33332819422e-1f, 1.33314422036e-1f,
                             -5.37397155531e-2f, 2.06390887954e-2f, -5.70498872745e-3f);
  const float near = multiply_add(p * square, x, x);
  const float e = exp_down(-2.0f * magnitude);
  const float far = std::copysign((1.0f - e) / (1.0f + e), x);
  return magnitude < 0.625f ? near : (x == x ? far : x);
}

// Of the normal distribution: |x|, what lies beyond it, and exp(-x^2 / 2).
template <class T>
struct Normal {
  T magnitude, tail, bell;
};

inline Normal<float> normal(float any) {
  const float magnitude = std::fabs(any);
  const float x = magnitude > 15.5f ? 15.5f : magnitude;  // 0 from there on; keeps NaN
  const float square = x * x;
  Exponent split = split_exponent(-0.5f * square);
  // The rounding error of the square, which exp would magnify.
  split.rest = multiply_add(-0.5f, multiply_add(x, x, -square), split.rest);
  const float bell = exp_within(split);
  const float t = 1.0f / multiply_add(0.28f, x, 1.0f);
  // The tail by the bell and t, within 9e-8.
  const float p =
      polynomial(t, t * t, 0.111693998f, 0.111880069f, 0.101747959f, 0.0888923497f, 0.0607087335f,
                 0.0101151517f, 0.0791059004f, -0.0878532726f, 0.0237091421f);
  return {x, t * p * bell, bell};
}

// The angle of the point (x, y), as std::atan2 has it.
inline float atan2(float y, float x) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float up = std::fabs(y), along = std::fabs(x);
  const bool is_steep = up > along, is_left = std::signbit(x);
  const float most = is_steep ? up : along, least = is_steep ? along : up;
  const float ratio = least == infinity ? 1.0f : least / most;
  const float z = most == 0 ? 0.0f : ratio;
  const float square = z * z;
  // atan(z) = z + z^3 p(z^2), within 3e-9.
  const float p =
      polynomial(square, square * square, -0.333332991f, 0.199985483f, -0.142642416f, 0.109521856f,
                 -0.0840344968f, 0.0579575823f, -0.0311778345f, 0.0109145996f, -0.00179362031f);
  const float angle = multiply_add(p * square, z, z);
  // From the x axis or from the y axis, whose angle is in two parts.
  const float axis = is_steep ? 0x1.921fb6p0f : (is_left ? 0x1.921fb6p1f : 0.0f);
  const float axis_rest = is_steep ? -0x1.777a5cp-25f : (is_left ? -0x1.777a5cp-24f : 0.0f);
  const float sum = axis + (is_steep != is_left ? -angle : angle) + axis_rest;
  return std::copysign((x == x) & (y == y) ? sum : x + y, y);
}

inline double exp(double x) { return std::exp(x); }
inline double exp_down(double x) { return std::exp(x); }
inline double expm1_down(double x) { return std::expm1(x); }
inline double log(double x) { return std::log(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double sigmoid(double x) {
  const double z = std::exp(-std::fabs(x));
  return (x >= 0 ? 1.0 : z) / (1.0 + z);
}
inline double atan2(double y, double x) { return std::atan2(y, x); }
inline Normal<double> normal(double any) {
  const double magnitude = std::fabs(any);
  const double x = magnitude > 40 ? 40 : magnitude;  // 0 from there on; keeps NaN
  return {x, 0.5 * std::erfc(x * (std::numbers::sqrt2 / 2)), std::exp(-0.5 * x * x)};
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

// x times the normal distribution up to x, accurate in both tails.
template <class T>
T gelu(T x) {
  const Normal<T> at = normal(x);
  return multiply_add(-at.magnitude, at.tail, x > 0 ? x : T(0));
}
template <class T>
T gelu_slope(T x) {
  const Normal<T> at = normal(x);
  constexpr T density = T(std::numbers::inv_sqrtpi / std::numbers::sqrt2);  // of the bell at 0
  const T left = multiply_add(-density * at.magnitude, at.bell, at.tail);   // the slope at -|x|
  return x > 0 ? 1 - left : left;
}

}  // namespace adret::cpu
