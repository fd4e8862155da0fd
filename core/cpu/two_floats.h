// Functions of two floats without branches, so that loops over them vectorise.
#pragma once

#include <adret/core/vector_math.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace adret::cpu {

// Note [Rests of a division]
// a - b trunc(a / b) takes as many steps of a long division as a's exponent is above b's, and no
// loop over such vectorises. Of a quotient below 2^(bits of T - 1) one step is enough, and exact:
// rounding leaves the quotient's whole part n, or makes it n + 1. Either multiple of b is within b
// of a, and the difference, a multiple of the last place of b or of a smaller a, fits T; the fused
// multiply-add finds it without rounding. After n + 1 it has the wrong sign, and adding b is exact
// again. Larger quotients, a divisor of 0 and what is not finite have NaN here.
template <class T>
T short_fmod(T a, T b) {
#if defined(__FP_FAST_FMAF)
  constexpr T limit = T(uint64_t(1) << (std::numeric_limits<T>::digits - 1));
  const T magnitude = std::fabs(a), divisor = std::fabs(b);
  const T quotient = magnitude / divisor;
  const T whole = std::trunc(quotient);
  const T first = std::fma(-whole, divisor, magnitude);
  const T rest = choose(first < 0, first + divisor, first);
  const T within = whole == 0 ? magnitude : rest;  // 0 times an infinite b is NaN
  const T known = quotient < limit ? within : std::numeric_limits<T>::quiet_NaN();
  return std::copysign(known, a);
#else
  return std::fmod(a, b);
#endif
}

// The rest by a divisor b, moved by b to have its sign.
template <class T>
T with_sign_of(T b, T rest) {
  return choose((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest);
}

template <class T>
bool has_nan(const T* x, int64_t n) {
  uint32_t found = 0;
  for (int64_t i = 0; i < n; ++i) found |= uint32_t(x[i] != x[i]);
  return found != 0;
}

// sqrt(a^2 + b^2) within 2 ulp; the operands are scaled by a power of two where their squares would
// leave the range of normal numbers, or lose bits below it.
template <class T>
T hypot(T a, T b) {
  constexpr bool is_float = sizeof(T) == 4;
  constexpr T above(is_float ? 0x1p62 : 0x1p510), below(is_float ? 0x1p-50 : 0x1p-480);
  constexpr T down(is_float ? 0x1p-66 : 0x1p-600), up(is_float ? 0x1p100 : 0x1p700);
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T x = std::fabs(a), y = std::fabs(b);
  const T most = x > y ? x : y, least = x > y ? y : x;
  const T grown = most < below ? up : T(1), shrunk = most < below ? 1 / up : T(1);
  const T scale = most > above ? down : grown, back = most > above ? 1 / down : shrunk;
  const T scaled = most * scale, other = least * scale;
  const T length = std::sqrt(multiply_add(scaled, scaled, other * other)) * back;
  return (x == infinity) | (y == infinity) ? infinity : length;
}

}  // namespace adret::cpu
