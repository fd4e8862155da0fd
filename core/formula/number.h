// What formulas compute with: numbers, and numbers with their slopes.
#pragma once

#include <adret/core/vector_math.h>

#include <concepts>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

// Marks the call of a formula that nvcc compiles for both sides; says nothing to a C++ compiler.
#if defined(__CUDACC__)
#define ADRET_FN __host__ __device__
#define ADRET_FORMULA_COMPILER nvcc
#else
#define ADRET_FN
#define ADRET_FORMULA_COMPILER cpp
#endif

// Note [Two compilers]
// What nvcc makes of these templates differs from what the C++ compiler does: it has kernels for
// the GPU beside the loops. An inline namespace for each keeps a program's linker from taking one
// for the other.
namespace adret::formula {
inline namespace ADRET_FORMULA_COMPILER {

// In the place of a type, elements of 16 bits on a GPU: they are computed in f32, by functions that
// are no more accurate than such a result can tell.
struct Short {};

template <class C>
concept Constant = std::is_arithmetic_v<C>;

// What a comparison gives: a bool, by which select() is found.
struct Condition {
  bool holds;

  explicit ADRET_FN Condition(bool holds) : holds(holds) {}
  ADRET_FN operator bool() const { return holds; }
};
template <class C>
concept Truth = std::same_as<C, Condition> || std::same_as<C, bool>;
template <Truth A, Truth B>
ADRET_FN Condition operator&&(A a, B b) {
  return Condition(bool(a) & bool(b));
}
template <Truth A, Truth B>
ADRET_FN Condition operator||(A a, B b) {
  return Condition(bool(a) | bool(b));
}
inline ADRET_FN Condition operator!(Condition a) { return Condition(!a.holds); }

// Operators that want but the others; a constant on one side becomes an X.
template <class X>
struct Operators {
#define ADRET_COMPARISON(op)                                      \
  friend ADRET_FN Condition operator op(const X& a, const X& b) { \
    return Condition(a.value op b.value);                         \
  }
  ADRET_COMPARISON(<)
  ADRET_COMPARISON(>)
  ADRET_COMPARISON(<=)
  ADRET_COMPARISON(>=)
  ADRET_COMPARISON(==)
  ADRET_COMPARISON(!=)
#undef ADRET_COMPARISON
  friend ADRET_FN X& operator+=(X& a, const X& b) { return a = a + b; }
  friend ADRET_FN X& operator-=(X& a, const X& b) { return a = a - b; }
  friend ADRET_FN X& operator*=(X& a, const X& b) { return a = a * b; }
  friend ADRET_FN X& operator/=(X& a, const X& b) { return a = a / b; }
};

// An element of a tensor: a class, so that functions are found by their argument, and that nothing
// computes in double by accident, as a constant becomes a number of the tensor's type.
template <class T>
struct Number : Operators<Number<T>> {
  using Value = std::conditional_t<std::is_same_v<T, Short>, float, T>;
  Value value;

  Number() = default;
  template <Constant C>
  ADRET_FN Number(C constant) : value(Value(constant)) {}

  friend ADRET_FN Number operator-(Number a) { return -a.value; }
  friend ADRET_FN Number operator+(Number a, Number b) { return a.value + b.value; }
  friend ADRET_FN Number operator-(Number a, Number b) { return a.value - b.value; }
  friend ADRET_FN Number operator*(Number a, Number b) { return a.value * b.value; }
  friend ADRET_FN Number operator/(Number a, Number b) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, Short>) return __fdividef(a.value, b.value);
#endif
    return a.value / b.value;
  }
};

// A number with its slopes along N directions (derivatives in forward mode). V is a Number, or for
// second derivatives a Dual.
template <class V, int N>
struct Dual : Operators<Dual<V, N>> {
  V value;
  V slope[N];

  Dual() = default;
  template <Constant C>
  ADRET_FN Dual(C constant) : Dual(V(constant), [](int) { return V(0); }) {}
  // slope_at(i) for each direction.
  template <class F>
  ADRET_FN Dual(const V& y, F slope_at) : Dual(y, slope_at, std::make_index_sequence<N>()) {}
  // The value y of a function of x, or of a and b, that has the derivatives d there.
  ADRET_FN Dual(const V& y, const V& d, const Dual& x)
      : Dual(y, [&](int i) { return times(d, x.slope[i]); }) {}
  ADRET_FN Dual(const V& y, const V& da, const Dual& a, const V& db, const Dual& b)
      : Dual(y, [&](int i) { return times(da, a.slope[i]) + times(db, b.slope[i]); }) {}

  friend ADRET_FN Dual operator-(const Dual& a) { return a.scaled(-a.value, -1); }
  friend ADRET_FN Dual operator+(const Dual& a, const Dual& b) {
    return Dual(a.value + b.value, [&](int i) { return a.slope[i] + b.slope[i]; });
  }
  friend ADRET_FN Dual operator-(const Dual& a, const Dual& b) {
    return Dual(a.value - b.value, [&](int i) { return a.slope[i] - b.slope[i]; });
  }
  friend ADRET_FN Dual operator*(const Dual& a, const Dual& b) {
    return Dual(a.value * b.value, b.value, a, a.value, b);
  }
  friend ADRET_FN Dual operator/(const Dual& a, const Dual& b) {
    const V inverse = 1 / b.value, y = a.value * inverse;
    return Dual(y, inverse, a, -(y * inverse), b);
  }
  template <Constant C>
  friend ADRET_FN Dual operator/(C c, const Dual& b) {
    const V inverse = 1 / b.value, y = c * inverse;
    return Dual(y, -(y * inverse), b);
  }

// Constants have no slopes to compute with.
#define ADRET_WITH_CONSTANT(op, slope_factor)            \
  template <Constant C>                                  \
  friend ADRET_FN Dual operator op(const Dual& a, C c) { \
    return a.scaled(a.value op c, slope_factor);         \
  }
#define ADRET_CONSTANT_WITH(op, slope_factor)            \
  template <Constant C>                                  \
  friend ADRET_FN Dual operator op(C c, const Dual& a) { \
    return a.scaled(c op a.value, slope_factor);         \
  }
  ADRET_WITH_CONSTANT(+, 1)
  ADRET_CONSTANT_WITH(+, 1)
  ADRET_WITH_CONSTANT(-, 1)
  ADRET_CONSTANT_WITH(-, -1)
  ADRET_WITH_CONSTANT(*, c)
  ADRET_CONSTANT_WITH(*, c)
  ADRET_WITH_CONSTANT(/, 1 / V(c))
#undef ADRET_WITH_CONSTANT
#undef ADRET_CONSTANT_WITH

 private:
  template <class C>
  ADRET_FN Dual scaled(const V& y, C factor) const {
    return Dual(y, [&](int i) { return factor * slope[i]; });
  }
  // As a list: GCC keeps what a loop fills in memory.
  template <class F, size_t... I>
  ADRET_FN Dual(const V& y, F slope_at, std::index_sequence<I...>)
      : value(y), slope{slope_at(int(I))...} {}
};

template <class X>
inline constexpr bool is_operand = false;
template <class T>
inline constexpr bool is_operand<Number<T>> = true;
template <class V, int N>
inline constexpr bool is_operand<Dual<V, N>> = true;
// What a formula is called with, and what it computes from that.
template <class X>
concept Operand = is_operand<X>;

// condition ? a : b, both computed; they may be constants.
template <class T>
ADRET_FN Number<T> select(bool condition, const Number<T>& a, const Number<T>& b) {
  return condition ? a.value : b.value;
}
template <class V, int N>
ADRET_FN Dual<V, N> select(bool condition, const Dual<V, N>& a, const Dual<V, N>& b) {
  return Dual<V, N>(select(condition, a.value, b.value),
                    [&](int i) { return select(condition, a.slope[i], b.slope[i]); });
}
template <Operand X, Constant C>
ADRET_FN X select(bool condition, const X& a, C b) {
  return select(condition, a, X(b));
}
template <Operand X, Constant C>
ADRET_FN X select(bool condition, C a, const X& b) {
  return select(condition, X(a), b);
}

template <Constant A, Constant B>
ADRET_FN std::common_type_t<A, B> select(Condition condition, A a, B b) {
  return condition ? a : b;
}

// Note [Infinite derivatives]
// A derivative times a slope of 0 is 0, infinite as the derivative may be: an operand that a value
// does not depend on is no concern of a function that is steep there (sqrt at 0). And the slopes of
// exponentials are finite: so x / (1 + exp(-x)) is flat at -100, where exp(100) is infinite in f32.
template <class T>
ADRET_FN Number<T> times(const Number<T>& derivative, const Number<T>& slope) {
  return select(slope == 0, Number<T>(0), derivative * slope);
}
template <class V, int N>
ADRET_FN Dual<V, N> times(const Dual<V, N>& derivative, const Dual<V, N>& slope) {
  return Dual<V, N>(times(derivative.value, slope.value), [&](int i) {
    return times(derivative.slope[i], slope.value) + times(derivative.value, slope.slope[i]);
  });
}
template <class T>
ADRET_FN Number<T> finite(const Number<T>& y) {  // keeps NaN
  using Value = typename Number<T>::Value;
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Value, float>) {
    return y.value > cpu::largest_float ? cpu::largest_float : y.value;
  }
#endif
  const Number<T> largest(std::numeric_limits<Value>::max());
  return select(y > largest, largest, y);
}
template <class V, int N>
ADRET_FN Dual<V, N> finite(const Dual<V, N>& y) {
  return Dual<V, N>(finite(y.value), [&](int i) { return y.slope[i]; });
}

}  // namespace ADRET_FORMULA_COMPILER
}  // namespace adret::formula
