// Elementary functions of f32 that are computed in f64: without branches, as those of
// vector_math.h, and short, as an error of 1e-9 is lost in the rounding to f32. f64 uses the C
// library.
#pragma once

#include <adret/core/vector_math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace adret::cpu {

// Note [Wide math]
// In f64 an argument needs no care beyond one reduction, and what cancels leaves 29 bits to lose:
// so each of these is a formula instead of a page, at half the elements a vector. Results are
// within 1 ulp of f32 (2 for erf and erfc; tests/kernels/elementwise_test.cpp holds them to that).
// Near 0, where f64 would not do, the first terms of the series take over.

// exp(x) within 1e-12, for |x| < 700; below -700 it is some tiny number, above some huge one.
inline double wide_exp(double any) {
  const double x = any < -700 ? -700 : (any > 700 ? 700 : any);  // keeps NaN
  // Adding 1.5 * 2^52 rounds to an integer n and leaves it in the lower bits.
  const double shifted = multiply_add(x, std::numbers::log2e, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  const double r = multiply_add(n, -std::numbers::ln2, x);
  double p = 1.0 / 3628800;
  p = multiply_add(p, r, 1.0 / 362880);
  p = multiply_add(p, r, 1.0 / 40320);
  p = multiply_add(p, r, 1.0 / 5040);
  p = multiply_add(p, r, 1.0 / 720);
  p = multiply_add(p, r, 1.0 / 120);
  p = multiply_add(p, r, 1.0 / 24);
  p = multiply_add(p, r, 1.0 / 6);
  p = multiply_add(p, r, 0.5);
  p = multiply_add(p * r, r, r) + 1;
  const uint64_t scale = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return p * std::bit_cast<double>(scale);
}

// log(x) within 1e-12 absolutely, for normal x > 0.
inline double wide_log(double x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); e is made a number by its bits alone.
  constexpr uint64_t root = std::bit_cast<uint64_t>(std::numbers::sqrt2 / 2);
  const uint64_t shifted = std::bit_cast<uint64_t>(x) - root + (uint64_t(1023) << 52);
  const double e = std::bit_cast<double>((shifted >> 52) | 0x4330000000000000) - (0x1p52 + 1023);
  const double m = std::bit_cast<double>((shifted & 0xfffffffffffff) + root);
  const double s = (m - 1) / (m + 1), square = s * s;  // log(m) = 2 artanh(s)
  double p = 1.0 / 15;
  p = multiply_add(p, square, 1.0 / 13);
  p = multiply_add(p, square, 1.0 / 11);
  p = multiply_add(p, square, 1.0 / 9);
  p = multiply_add(p, square, 1.0 / 7);
  p = multiply_add(p, square, 1.0 / 5);
  p = multiply_add(p, square, 1.0 / 3);
  return multiply_add(e, std::numbers::ln2, 2 * multiply_add(p * square, s, s));
}

inline float exp2(float x) { return float(wide_exp(double(x) * std::numbers::ln2)); }

inline float expm1(float any) {
  const double x = any;
  const double near = x * (1 + x * (0.5 + x * (1.0 / 6)));
  return float(std::fabs(x) < 1e-4 ? near : wide_exp(x) - 1);
}

// The logarithm of a positive f64, and what f32 has for the others.
inline float log_of(double x, double value) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double positive = x == infinity ? x : value;
  const double nonzero = x >= 0 ? positive : std::numeric_limits<double>::quiet_NaN();
  return float(x == 0 ? -infinity : nonzero);
}

inline float log2(float x) { return log_of(x, wide_log(x) * std::numbers::log2e); }

inline float log1p(float any) {
  const double x = any;
  const double near = x * (1 - x * (0.5 - x * (1.0 / 3)));
  return std::fabs(x) < 1e-4 ? float(near) : log_of(1 + x, wide_log(1 + x));
}

inline float sinh(float any) {
  const double x = any, e = wide_exp(x), square = x * x;
  const double near = x * (1 + square * (1.0 / 6 + square * (1.0 / 120)));
  return float(std::fabs(x) < 0.01 ? near : 0.5 * (e - 1 / e));
}
inline float cosh(float any) {
  const double e = wide_exp(any);
  return float(0.5 * (e + 1 / e));
}

// erfc(z) = t exp(-z^2 + p(t)) for z >= 0, t = 2 / (2 + z): a Chebyshev fit within 1.2e-7 of the
// result (Press et al., Numerical Recipes, 2nd edition, section 6.2).
inline double wide_erfc(double z) {
  const double t = 2 / (2 + z);
  double p = 0.17087277;
  p = multiply_add(p, t, -0.82215223);
  p = multiply_add(p, t, 1.48851587);
  p = multiply_add(p, t, -1.13520398);
  p = multiply_add(p, t, 0.27886807);
  p = multiply_add(p, t, -0.18628806);
  p = multiply_add(p, t, 0.09678418);
  p = multiply_add(p, t, 0.37409196);
  p = multiply_add(p, t, 1.00002368);
  p = multiply_add(p, t, -1.26551223);
  return t * wide_exp(multiply_add(-z, z, p));
}

// erf(x) = 2 / sqrt(pi) (x - x^3/3 + x^5/10 - ...), within 1e-9 of itself for |x| < 1.
inline double wide_erf_near(double x) {
  const double square = x * x;
  double p = 1.0 / 76204800 - square * (1.0 / 918086400);  // of x^(2n): (-1)^n / (n! (2n + 1))
  p = -1.0 / 6894720 + square * p;
  p = 1.0 / 685440 + square * p;
  p = -1.0 / 75600 + square * p;
  p = 1.0 / 9360 + square * p;
  p = -1.0 / 1320 + square * p;
  p = 1.0 / 216 + square * p;
  p = -1.0 / 42 + square * p;
  p = 1.0 / 10 + square * p;
  p = -1.0 / 3 + square * p;
  return 2 * std::numbers::inv_sqrtpi * (x + x * (square * p));
}

inline float erf(float any) {
  const double x = any, far = 1 - wide_erfc(std::fabs(x));
  return float(std::fabs(x) < 1 ? wide_erf_near(x) : (x > 0 ? far : -far));
}
inline float erfc(float any) {
  const double x = any, tail = wide_erfc(std::fabs(x));
  const double far = x > 0 ? tail : 2 - tail;
  return float(std::fabs(x) < 0.5 ? 1 - wide_erf_near(x) : far);
}

// -- angles --------------------------------------------------------------------------------------

// Beyond this the reduction below loses bits; the C library takes over.
inline constexpr float largest_angle = 0x1p40f;

struct SinCos {
  double sin, cos;
};

// For |x| <= largest_angle, and NaN for infinities.
inline SinCos wide_sincos(double x) {
  // x = n pi/2 + r, with pi/2 in two parts.
  const double shifted = multiply_add(x, 2 * std::numbers::inv_pi, 0x1.8p52);
  const double n = shifted - 0x1.8p52;
  double r = multiply_add(n, -0x1.921fb54442d18p0, x);
  r = multiply_add(n, -0x1.1a62633145c07p-54, r);
  const double square = r * r;
  double s = -1.0 / 39916800, c = 1.0 / 479001600;
  s = multiply_add(s, square, 1.0 / 362880);
  s = multiply_add(s, square, -1.0 / 5040);
  s = multiply_add(s, square, 1.0 / 120);
  s = multiply_add(s, square, -1.0 / 6);
  s = multiply_add(s * square, r, r);
  c = multiply_add(c, square, -1.0 / 3628800);
  c = multiply_add(c, square, 1.0 / 40320);
  c = multiply_add(c, square, -1.0 / 720);
  c = multiply_add(c, square, 1.0 / 24);
  c = multiply_add(c, square, -0.5);
  c = multiply_add(c, square, 1.0);
  // Each quarter turn: (sin, cos) become (cos, -sin).
  const uint64_t quarters = std::bit_cast<uint64_t>(shifted);
  const bool odd = (quarters & 1) != 0;
  const uint64_t sin_sign = (quarters & 2) << 62, cos_sign = ((quarters + 1) & 2) << 62;
  const double sin = odd ? c : s, cos = odd ? s : c;
  return {std::bit_cast<double>(std::bit_cast<uint64_t>(sin) ^ sin_sign),
          std::bit_cast<double>(std::bit_cast<uint64_t>(cos) ^ cos_sign)};
}

// sin(x) for x = n pi + r, with pi in two parts: of r, changed in sign for an odd n. `halves` is n,
// or n - 1/2 for cos, and `shifted` has n in its lower bits.
inline float sin_beyond(double x, double halves, double shifted) {
  double r = multiply_add(halves, -0x1.921fb54442d18p1, x);
  r = multiply_add(halves, -0x1.1a62633145c07p-53, r);
  const double square = r * r;
  const double p =
      polynomial(square, square * square, -0.16666666626149623, 0.0083333311086025031,
                 -0.00019840868209817643, 2.7525384419782467e-06, -2.3888909175412391e-08);
  const uint64_t sign = std::bit_cast<uint64_t>(shifted) << 63;
  return float(
      std::bit_cast<double>(std::bit_cast<uint64_t>(multiply_add(p * square, r, r)) ^ sign));
}

inline float near_sin(float any) {
  const double x = any, shifted = multiply_add(x, std::numbers::inv_pi, 0x1.8p52);
  return sin_beyond(x, shifted - 0x1.8p52, shifted);
}
// sin(x + pi/2)
inline float near_cos(float any) {
  const double x = any, shifted = multiply_add(x, std::numbers::inv_pi, 0.5) + 0x1.8p52;
  return sin_beyond(x, shifted - 0x1.8p52 - 0.5, shifted);
}
inline float near_tan(float x) {
  const SinCos both = wide_sincos(x);
  return float(both.sin / both.cos);
}

// atan(x) within 1e-9 of itself: beyond tan(pi/8) half the angle, twice over, and its series.
inline double wide_atan(double x) {
  const double magnitude = std::fabs(x);
  const bool beyond_one = magnitude > 1;
  const double z = beyond_one ? 1 / magnitude : magnitude;
  const double half = z / (1 + std::sqrt(1 + z * z));              // tan(angle / 2) <= 0.414
  const double quarter = half / (1 + std::sqrt(1 + half * half));  // <= 0.199
  const double square = quarter * quarter;
  double p = 1.0 / 13;
  p = 1.0 / 11 - square * p;
  p = 1.0 / 9 - square * p;
  p = 1.0 / 7 - square * p;
  p = 1.0 / 5 - square * p;
  p = 1.0 / 3 - square * p;
  const double angle = 4 * (quarter - quarter * (square * p));
  return std::copysign(beyond_one ? std::numbers::pi / 2 - angle : angle, x);
}

inline float atan(float x) { return float(wide_atan(x)); }
inline float asin(float any) {
  const double x = any;  // 1 - x^2 is exact enough as a product
  return float(wide_atan(x / std::sqrt((1 - x) * (1 + x))));
}
inline float acos(float any) {
  const double x = any;
  return float(2 * wide_atan(std::sqrt((1 - x) / (1 + x))));
}

inline double exp2(double x) { return std::exp2(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log2(double x) { return std::log2(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double sinh(double x) { return std::sinh(x); }
inline double cosh(double x) { return std::cosh(x); }
inline double erf(double x) { return std::erf(x); }
inline double erfc(double x) { return std::erfc(x); }
inline double atan(double x) { return std::atan(x); }
inline double asin(double x) { return std::asin(x); }
inline double acos(double x) { return std::acos(x); }

}  // namespace adret::cpu
