// Reduction of the rows of a matrix to one row, in a fixed order.
#pragma once

#include <adret/core/cpu/vector_math.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace adret::cpu {

// The operations of a reduction: sums and products of f32 and f64 are kept in f64.
template <class T>
struct Sum {
  using Result = double;
  static constexpr bool in_fours = true;
  static constexpr Result identity = 0;
  static Result combine(Result a, Result b) { return a + b; }
};
template <class T>
struct Prod {
  using Result = double;
  static constexpr bool in_fours = true;
  static constexpr Result identity = 1;
  static Result combine(Result a, Result b) { return a * b; }
};
template <class T>
struct Max {
  using Result = T;
  static constexpr bool in_fours = false;
  static constexpr Result identity = -std::numeric_limits<T>::infinity();
  static Result combine(Result a, Result b) { return larger(a, b); }
};
template <class T>
struct Min {
  using Result = T;
  static constexpr bool in_fours = false;
  static constexpr Result identity = std::numeric_limits<T>::infinity();
  static Result combine(Result a, Result b) { return smaller(a, b); }
};

// Narrower rows than this are taken several at a time.
inline constexpr int64_t wide_width = 64;

// Combines `rows` rows of x, `stride` elements apart, into result (width).
template <class Op, class T>
void reduce_rows(const T* x, int64_t rows, int64_t stride, int64_t width,
                 typename Op::Result* result) {
  using Result = typename Op::Result;
  int64_t row = 0;
  // Four rows at a time halve the time of sums; nested comparisons would not vectorise.
  for (; Op::in_fours && row + 4 <= rows; row += 4, x += 4 * stride) {
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) {
      const Result low = Op::combine(Result(x[i]), Result(x[stride + i]));
      const Result high = Op::combine(Result(x[2 * stride + i]), Result(x[3 * stride + i]));
      result[i] = Op::combine(result[i], Op::combine(low, high));
    }
  }
  for (; row < rows; ++row, x += stride) {
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) result[i] = Op::combine(result[i], Result(x[i]));
  }
}

// The same for narrow dense rows: several make one wide row, whose results are folded at the end.
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

// All of 0..n-1 together.
template <class Op, class T>
typename Op::Result reduce_row(const T* x, int64_t n) {
  typename Op::Result result = Op::identity;
  reduce_narrow_rows<Op>(x, n, 1, &result);
  return result;
}

}  // namespace adret::cpu
