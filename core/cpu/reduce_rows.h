// Reduction of the rows of a matrix to one row, in a fixed order.
#pragma once

#include <adret/core/cpu/vector.h>
#include <adret/core/vector_math.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace adret::cpu {

// The operations of a reduction, of numbers and of vectors: sums and products of f32 and f64 are
// kept in f64.
template <class T>
struct Sum {
  using Result = double;
  static constexpr Result identity = 0;
  template <class V>
  static V combine(V a, V b) {
    return a + b;
  }
};
template <class T>
struct Prod {
  using Result = double;
  static constexpr Result identity = 1;
  template <class V>
  static V combine(V a, V b) {
    return a * b;
  }
};
template <class T>
struct Max {
  using Result = T;
  static constexpr Result identity = -std::numeric_limits<T>::infinity();
  template <class V>
  static V combine(V a, V b) {
    return larger(a, b);
  }
};
template <class T>
struct Min {
  using Result = T;
  static constexpr Result identity = std::numeric_limits<T>::infinity();
  template <class V>
  static V combine(V a, V b) {
    return smaller(a, b);
  }
};

// Narrower rows than this are taken several at a time.
inline constexpr int64_t wide_width = 64;

// Neighbours of x, as many as a vector of results has.
template <class Result, class T>
[[gnu::always_inline]] inline Vector<Result> load_results(const T* x) {
  if constexpr (std::is_same_v<Result, T>) {
    return load(x);
  } else {
    using Source = typename VectorOfLanes<T, lanes<Result>>::type;
    Source source;
    std::memcpy(&source, x, sizeof(source));
    return __builtin_convertvector(source, Vector<Result>);
  }
}

// N vectors of columns from `column` on, whose results stay in registers.
template <class Op, int N, class T>
void reduce_block(const T* x, int64_t rows, int64_t stride, int64_t column,
                  typename Op::Result* result) {
  using Result = typename Op::Result;
  constexpr int64_t width = lanes<Result>;
  Vector<Result> kept[N];
  for (int k = 0; k < N; ++k) kept[k] = load(result + column + k * width);
  x += column;
  for (int64_t row = 0; row < rows; ++row, x += stride) {
#pragma GCC unroll 8
    for (int k = 0; k < N; ++k) {
      kept[k] = Op::combine(kept[k], load_results<Result>(x + k * width));
    }
  }
  for (int k = 0; k < N; ++k) store(result + column + k * width, kept[k]);
}

// Combines `rows` rows of x, `stride` elements apart, into result (width).
template <class Op, class T>
void reduce_rows(const T* x, int64_t rows, int64_t stride, int64_t width,
                 typename Op::Result* result) {
  using Result = typename Op::Result;
  constexpr int64_t one = lanes<Result>;
  int64_t column = 0;
  for (; column + 8 * one <= width; column += 8 * one) {
    reduce_block<Op, 8>(x, rows, stride, column, result);
  }
  for (; column + 2 * one <= width; column += 2 * one) {
    reduce_block<Op, 2>(x, rows, stride, column, result);
  }
  for (; column + one <= width; column += one) {
    reduce_block<Op, 1>(x, rows, stride, column, result);
  }
  if (column == width) return;
  for (int64_t row = 0; row < rows; ++row, x += stride) {
#pragma GCC ivdep
    for (int64_t i = column; i < width; ++i) result[i] = Op::combine(result[i], Result(x[i]));
  }
}

// All of 0..n-1 together, in several vectors.
template <class Op, class T>
typename Op::Result reduce_row(const T* x, int64_t n) {
  using Result = typename Op::Result;
  constexpr int64_t one = lanes<Result>, count = 8, all = count * one;
  alignas(vector_bytes) Result kept[all];
  std::fill_n(kept, all, Op::identity);
  const int64_t rows = n / all;
  if (rows > 0) reduce_block<Op, count>(x, rows, all, 0, kept);
  x += rows * all;
  n -= rows * all;
  for (int64_t k = 0; n >= one; ++k, x += one, n -= one) {
    store(kept + k * one, Op::combine(load(kept + k * one), load_results<Result>(x)));
  }
  for (int64_t i = 0; i < n; ++i) kept[i] = Op::combine(kept[i], Result(x[i]));
  for (int64_t half = all / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) kept[i] = Op::combine(kept[i], kept[i + half]);
  }
  return kept[0];
}

// Rows as in reduce_rows, but narrow and dense: several make one wide row, whose results are folded
// at the end.
template <class Op, class T>
void reduce_narrow_rows(const T* x, int64_t rows, int64_t width, typename Op::Result* result) {
  const int64_t rows_at_once = wide_width / width, wide = rows_at_once * width;
  const int64_t wide_rows = rows / rows_at_once;
  if (wide_rows > 1) {
    typename Op::Result folded[wide_width];
    std::fill_n(folded, wide, Op::identity);
    reduce_rows<Op>(x, wide_rows, wide, wide, folded);
    reduce_rows<Op>(folded, rows_at_once, width, width, result);
    x += wide_rows * wide;
    rows -= wide_rows * rows_at_once;
  }
  reduce_rows<Op>(x, rows, width, width, result);
}

}  // namespace adret::cpu
