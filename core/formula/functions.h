// The functions that formulas call by their usual names, each with its derivative.
#pragma once

#include <adret/core/formula/number.h>
#include <adret/core/wide_math.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace adret::formula {
inline namespace ADRET_FORMULA_COMPILER {

#if defined(__CUDA_ARCH__)
#define ADRET_ON(on_cpu, on_gpu) on_gpu
#else
#define ADRET_ON(on_cpu, on_gpu) on_cpu
// The reduction of angles beyond largest_angle is too long for a vector; NaN says so.
inline float of_angle(float x, float y) {
  return std::fabs(x) <= cpu::largest_angle ? y : std::numeric_limits<float>::quiet_NaN();
}
inline float sin_of(float x) { return of_angle(x, cpu::near_sin(x)); }
inline float cos_of(float x) { return of_angle(x, cpu::near_cos(x)); }
inline float tan_of(float x) { return of_angle(x, cpu::near_tan(x)); }
inline double sin_of(double x) { return std::sin(x); }
inline double cos_of(double x) { return std::cos(x); }
inline double tan_of(double x) { return std::tan(x); }
#endif

// y = name(x): from a plain x by the library's vector math on the CPU, and by CUDA's functions on a
// GPU; and the derivative, in terms of x and y.
#define ADRET_FUNCTION(name, on_cpu, on_gpu, slope)       \
  template <class T>                                      \
  ADRET_FN Number<T> name(const Number<T>& number) {      \
    const auto x = number.value;                          \
    return ADRET_ON(on_cpu, on_gpu);                      \
  }                                                       \
  template <class V, int N>                               \
  ADRET_FN Dual<V, N> name(const Dual<V, N>& dual) {      \
    [[maybe_unused]] const V x = dual.value, y = name(x); \
    return Dual<V, N>(y, slope, dual);                    \
  }
#if defined(__CUDACC__)
inline __device__ Number<Short> exp(const Number<Short>& x) { return __expf(x.value); }
inline __device__ Number<Short> log(const Number<Short>& x) { return __logf(x.value); }
#endif

ADRET_FUNCTION(exp, cpu::exp(x), ::exp(x), finite(y))
ADRET_FUNCTION(exp2, cpu::exp2(x), ::exp2(x), finite(y) * std::numbers::ln2)
ADRET_FUNCTION(expm1, cpu::expm1(x), ::expm1(x), finite(y + 1))
ADRET_FUNCTION(log, cpu::log(x), ::log(x), 1 / x)
ADRET_FUNCTION(log2, cpu::log2(x), ::log2(x), std::numbers::log2e / x)
ADRET_FUNCTION(log1p, cpu::log1p(x), ::log1p(x), 1 / (1 + x))
ADRET_FUNCTION(sqrt, std::sqrt(x), ::sqrt(x), 0.5 / y)
ADRET_FUNCTION(rsqrt, 1 / std::sqrt(x), ::rsqrt(x), -0.5 * y / x)
ADRET_FUNCTION(sin, sin_of(x), ::sin(x), cos(x))
ADRET_FUNCTION(cos, cos_of(x), ::cos(x), -sin(x))
ADRET_FUNCTION(tan, tan_of(x), ::tan(x), 1 + y * y)
ADRET_FUNCTION(asin, cpu::asin(x), ::asin(x), rsqrt((1 - x) * (1 + x)))
ADRET_FUNCTION(acos, cpu::acos(x), ::acos(x), -rsqrt((1 - x) * (1 + x)))
ADRET_FUNCTION(atan, cpu::atan(x), ::atan(x), 1 / (1 + x * x))
ADRET_FUNCTION(sinh, cpu::sinh(x), ::sinh(x), finite(cosh(x)))
ADRET_FUNCTION(cosh, cpu::cosh(x), ::cosh(x), sinh(x))
ADRET_FUNCTION(tanh, cpu::tanh(x), ::tanh(x), 1 - y * y)
ADRET_FUNCTION(erf, cpu::erf(x), ::erf(x), 2 * std::numbers::inv_sqrtpi * exp(-(x * x)))
ADRET_FUNCTION(erfc, cpu::erfc(x), ::erfc(x), -2 * std::numbers::inv_sqrtpi * exp(-(x * x)))
ADRET_FUNCTION(abs, std::fabs(x), ::fabs(x), select(x > 0, V(1), select(x < 0, V(-1), V(0))))
ADRET_FUNCTION(floor, std::floor(x), ::floor(x), V(0))
ADRET_FUNCTION(ceil, std::ceil(x), ::ceil(x), V(0))
ADRET_FUNCTION(round, std::nearbyint(x), ::rint(x), V(0))  // halves to the even integer
ADRET_FUNCTION(trunc, std::trunc(x), ::trunc(x), V(0))
#undef ADRET_FUNCTION

// Without overflow on either side.
template <class T>
ADRET_FN Number<T> sigmoid(const Number<T>& x) {
#if defined(__CUDA_ARCH__)
  const Number<T> z = exp(-abs(x));
  return select(x >= 0, 1, z) / (1 + z);
#else
  return cpu::sigmoid(x.value);
#endif
}
template <class V, int N>
ADRET_FN Dual<V, N> sigmoid(const Dual<V, N>& x) {
  const V y = sigmoid(x.value);
  return Dual<V, N>(y, y * (1 - y), x);
}

// The larger and the smaller; NaN wins. Each of two equal ones has half the slope.
template <Operand X>
ADRET_FN X max(const X& a, const X& b) {
  return select(a > b, a, select(b > a, b, 0.5 * a + 0.5 * b));
}
template <Operand X>
ADRET_FN X min(const X& a, const X& b) {
  return select(a < b, a, select(b < a, b, 0.5 * a + 0.5 * b));
}
// Keeps NaN; the slope is 1 at the ends.
template <Operand X, std::convertible_to<X> A, std::convertible_to<X> B>
ADRET_FN X clamp(const X& x, const A& low, const B& high) {
  return select(x < low, low, select(x > high, high, x));
}

// NaN stays in these three, and relu has no slope at 0.
template <Operand X>
ADRET_FN X sign(const X& x) {
  return select(x > 0, 1, select(x < 0, -1, 0 * x));
}
template <Operand X>
ADRET_FN X relu(const X& x) {
  return select(x <= 0, 0, x);
}
// log(1 + exp(x)), counted as x beyond 20, as the function of tensors does.
template <Operand X>
ADRET_FN X softplus(const X& x) {
  return select(x > 20, x, log1p(exp(select(x > 20, 0, x))));
}

template <class T>
ADRET_FN Number<T> pow(const Number<T>& x, const Number<T>& exponent) {
  return ADRET_ON(std::pow(x.value, exponent.value), ::pow(x.value, exponent.value));
}
#undef ADRET_ON
template <class V, int N>
ADRET_FN Dual<V, N> pow(const Dual<V, N>& x, const Dual<V, N>& exponent) {
  // As of pow() of tensors: 0 to any power does not learn from the exponent.
  const V y = pow(x.value, exponent.value), base = select(x.value == 0, V(1), x.value);
  return Dual<V, N>(y, times(pow(x.value, exponent.value - 1), exponent.value), x,
                    times(y, log(base)), exponent);
}
template <class T, Constant C>
ADRET_FN Number<T> pow(const Number<T>& x, C exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  return pow(x, Number<T>(exponent));
}
template <class V, int N, Constant C>
ADRET_FN Dual<V, N> pow(const Dual<V, N>& x, C exponent) {
  if (exponent == 0) return Dual<V, N>(1);
  return Dual<V, N>(pow(x.value, exponent), exponent * pow(x.value, exponent - 1), x);
}

#define ADRET_WITH_CONSTANTS(name)   \
  template <Operand X, Constant C>   \
  ADRET_FN X name(const X& a, C b) { \
    return name(a, X(b));            \
  }                                  \
  template <Operand X, Constant C>   \
  ADRET_FN X name(C a, const X& b) { \
    return name(X(a), b);            \
  }
ADRET_WITH_CONSTANTS(max)
ADRET_WITH_CONSTANTS(min)
#undef ADRET_WITH_CONSTANTS
template <Operand X, Constant C>
ADRET_FN X pow(C base, const X& exponent) {
  return pow(X(base), exponent);
}

// Names that somebody may try, for an error that says so.
#define ADRET_WITHOUT_DERIVATIVE(name)                                                        \
  template <Operand X, class... More>                                                         \
  ADRET_FN X name(const X& x, const More&...) {                                               \
    static_assert(!sizeof(X), "[pointwise] a formula calls " #name                            \
                              ", which has no derivative there; docs/custom_layers.md lists " \
                              "the functions that have one");                                 \
    return x;                                                                                 \
  }
ADRET_WITHOUT_DERIVATIVE(acosh)
ADRET_WITHOUT_DERIVATIVE(asinh)
ADRET_WITHOUT_DERIVATIVE(atan2)
ADRET_WITHOUT_DERIVATIVE(atanh)
ADRET_WITHOUT_DERIVATIVE(cbrt)
ADRET_WITHOUT_DERIVATIVE(fmod)
ADRET_WITHOUT_DERIVATIVE(hypot)
ADRET_WITHOUT_DERIVATIVE(lgamma)
ADRET_WITHOUT_DERIVATIVE(remainder)
ADRET_WITHOUT_DERIVATIVE(tgamma)
#undef ADRET_WITHOUT_DERIVATIVE

}  // namespace ADRET_FORMULA_COMPILER
}  // namespace adret::formula
