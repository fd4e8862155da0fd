// What a reduction does with an element, and with the results of two parts.
#pragma once

#include <adret/core/vector_math.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace adret::cpu {

// Note [Sums of f32]
// Two f32 elements are added in f32, and their sums in f64: the conversion takes longer than the
// addition, and of half as many the cache is the bound. A sum is off by at most half a unit in the
// last place of each pair's sum, besides its own rounding; a pair's sum must fit f32.

// The operations of a reduction, of numbers and of vectors: add takes in an element that came from
// column `column` of x, combine what others kept. Sums and products of f32 and f64 are kept in f64.
template <class T>
struct Sum {
  using Result = double;
  using Merge = Sum;  // the operation on results
  static constexpr Result identity = 0;
  static constexpr bool in_pairs = std::is_same_v<T, float>;
  template <class V>
  static V combine(V a, V b) {
    return a + b;
  }
  template <class V>
  V add(V kept, V x, int64_t /*column*/) const {
    return kept + x;
  }
  static double finish(double sum, double divisor) { return sum / divisor; }
};
// Each element is widened: for what follows from small differences.
template <class T>
struct WideSum : Sum<T> {
  static constexpr bool in_pairs = false;
};
template <class T>
struct SquareSum : WideSum<T> {
  template <class V>
  V add(V kept, V x, int64_t) const {
    return kept + x * x;
  }
  static double finish(double sum, double) { return std::sqrt(sum); }
};
// The squares of distances from each column's mean.
template <class T>
struct DeviationSum : WideSum<T> {
  const double* means;
  explicit DeviationSum(const double* means) : means(means) {}
  template <class V>
  V add(V kept, V x, int64_t column) const {
    V mean;
    std::memcpy(&mean, means + column, sizeof(V));
    return kept + (x - mean) * (x - mean);
  }
};

// Operations that take an element as they take a result.
template <class Op, class R>
struct Plain {
  using Result = R;
  using Merge = Op;
  static constexpr bool in_pairs = false;
  template <class V>
  V add(V kept, V x, int64_t) const {
    return Op::combine(kept, x);
  }
  static R finish(R result, double) { return result; }
};
template <class R>
struct ProdIn : Plain<ProdIn<R>, R> {
  static constexpr R identity = 1;
  template <class V>
  static V combine(V a, V b) {
    return a * b;
  }
};
template <class T>
using Prod = ProdIn<double>;
// Sums and products of integers are kept modulo 2^64.
struct IntegerSum : Plain<IntegerSum, uint64_t> {
  static constexpr uint64_t identity = 0;
  template <class V>
  static V combine(V a, V b) {
    return a + b;
  }
};
using IntegerProd = ProdIn<uint64_t>;
template <class T>
struct Max : Plain<Max<T>, T> {
  using Limits = std::numeric_limits<T>;
  static constexpr T identity = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  template <class V>
  static V combine(V a, V b) {
    return larger(a, b);
  }
};
template <class T>
struct Min : Plain<Min<T>, T> {
  using Limits = std::numeric_limits<T>;
  static constexpr T identity = Limits::has_infinity ? Limits::infinity() : Limits::max();
  template <class V>
  static V combine(V a, V b) {
    return smaller(a, b);
  }
};

}  // namespace adret::cpu
