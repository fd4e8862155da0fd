// Reduction of the rows of a matrix to one row, in a fixed order.
#pragma once

#include <adret/core/cpu/reduce_operations.h>
#include <adret/core/cpu/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace adret::cpu {

// Narrower rows than this are taken several at a time.
inline constexpr int64_t wide_width = 64;

template <class Result, class T>
using Neighbours = typename VectorOfLanes<T, lanes<Result>>::type;  // of a vector of results

template <class Result, class T>
[[gnu::always_inline]] inline Vector<Result> widened(Neighbours<Result, T> v) {
  if constexpr (std::is_same_v<Result, T>) {
    return v;
#ifdef __AVX512F__
  } else if constexpr (std::is_same_v<Result, double> && std::is_same_v<T, float>) {
    return _mm512_cvtps_pd(v);  // GCC 12 converts the halves apart
#endif
  } else if constexpr (std::is_integral_v<T>) {
    return convert_lanes<Result, lanes<Result>, T>(v);
  } else {
    return __builtin_convertvector(v, Vector<Result>);
  }
}
template <class Result, class T>
[[gnu::always_inline]] inline Neighbours<Result, T> load_neighbours(const T* x) {
  Neighbours<Result, T> v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

// Takes `rows` rows of x, `stride` elements apart, into N vectors of columns, of which x and
// `column` are the first.
template <class Op, int N, class T>
[[gnu::always_inline]] inline void take_rows(const Op& op, const T* x, int64_t rows, int64_t stride,
                                             int64_t column,
                                             Vector<typename Op::Result> (&kept)[N]) {
  using Result = typename Op::Result;
  constexpr int64_t one = lanes<Result>;
  int64_t row = 0;
  if constexpr (Op::in_pairs && !std::is_same_v<T, Result>) {
    for (; row + 2 <= rows; row += 2, x += 2 * stride) {
#pragma GCC unroll 8
      for (int k = 0; k < N; ++k) {
        const T* at = x + k * one;
        const auto pair = load_neighbours<Result>(at) + load_neighbours<Result>(at + stride);
        kept[k] = op.add(kept[k], widened<Result, T>(pair), column + k * one);
      }
    }
  }
  for (; row < rows; ++row, x += stride) {
#pragma GCC unroll 8
    for (int k = 0; k < N; ++k) {
      const auto next = load_neighbours<Result>(x + k * one);
      kept[k] = op.add(kept[k], widened<Result, T>(next), column + k * one);
    }
  }
}

// N vectors of columns from `column` on, whose results stay in registers.
template <class Op, int N, class T>
void reduce_block(const Op& op, const T* x, int64_t rows, int64_t stride, int64_t column,
                  typename Op::Result* result) {
  constexpr int64_t one = lanes<typename Op::Result>;
  Vector<typename Op::Result> kept[N];
  for (int k = 0; k < N; ++k) kept[k] = load(result + column + k * one);
  take_rows(op, x + column, rows, stride, column, kept);
  for (int k = 0; k < N; ++k) store(result + column + k * one, kept[k]);
}

// Takes `rows` rows of x, `stride` elements apart, into result (width).
template <class Op, class T>
void reduce_rows(const T* x, int64_t rows, int64_t stride, int64_t width,
                 typename Op::Result* result, const Op& op = Op()) {
  using Result = typename Op::Result;
  constexpr int64_t one = lanes<Result>;
  int64_t column = 0;
  for (; column + 8 * one <= width; column += 8 * one) {
    reduce_block<Op, 8>(op, x, rows, stride, column, result);
  }
  for (; column + 2 * one <= width; column += 2 * one) {
    reduce_block<Op, 2>(op, x, rows, stride, column, result);
  }
  for (; column + one <= width; column += one) {
    reduce_block<Op, 1>(op, x, rows, stride, column, result);
  }
  if (column == width) return;
  for (int64_t row = 0; row < rows; ++row, x += stride) {
#pragma GCC ivdep
    for (int64_t i = column; i < width; ++i) result[i] = op.add(result[i], Result(x[i]), i);
  }
}

// All lanes together: those of the two halves, until one is left.
template <class Op, int N, class R>
[[gnu::always_inline]] inline R fold_lanes(typename VectorOfLanes<R, N>::type v) {
  if constexpr (N == 2) {
    return Op::combine(R(v[0]), R(v[1]));
  } else {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return fold_lanes<Op, N / 2, R>(Op::combine(__builtin_shufflevector(v, v, I...),
                                                  __builtin_shufflevector(v, v, N / 2 + I...)));
    }
    (std::make_integer_sequence<int, N / 2>{});
  }
}

// All of 0..n-1 together, in `count` vectors.
template <class Op, int count, class T>
[[gnu::always_inline]] inline typename Op::Result reduce_row_in(const T* x, int64_t n,
                                                                const Op& op) {
  using Result = typename Op::Result;
  constexpr int64_t one = lanes<Result>, all = count * one;
  Vector<Result> kept[count];
#pragma GCC unroll 8
  for (Vector<Result>& v : kept) v = Vector<Result>{} + Op::identity;
  const int64_t rows = n / all;
  take_rows(op, x, rows, all, 0, kept);
  x += rows * all;
  n -= rows * all;
#pragma GCC unroll 8
  for (int k = 0; k < count; ++k) {
    if (n < one) break;
    kept[k] = op.add(kept[k], widened<Result, T>(load_neighbours<Result>(x)), 0);
    x += one;
    n -= one;
  }
#pragma GCC unroll 8
  for (int half = count / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int k = 0; k < half; ++k) kept[k] = Op::combine(kept[k], kept[k + half]);
  }
  if (n > 0) {
    Result result[one];
    store(result, kept[0]);
    for (int64_t i = 0; i < n; ++i) result[i] = op.add(result[i], Result(x[i]), 0);
    kept[0] = load(result);
  }
  return fold_lanes<Op, one, Result>(kept[0]);
}

// The same in as many vectors as hide the operation's latency, or in two if a short row would leave
// most of those to be folded unused.
template <class Op, class T>
typename Op::Result reduce_row(const T* x, int64_t n, const Op& op = Op()) {
  if (n < 16 * lanes<typename Op::Result>) return reduce_row_in<Op, 2>(x, n, op);
  return reduce_row_in<Op, 8>(x, n, op);
}

// Rows as in reduce_rows, but narrow and dense: several make one wide row, whose results are folded
// at the end. What `op` knows of columns repeats up to wide_width.
template <class Op, class T>
void reduce_narrow_rows(const T* x, int64_t rows, int64_t width, typename Op::Result* result,
                        const Op& op = Op()) {
  const int64_t rows_at_once = wide_width / width, wide = rows_at_once * width;
  const int64_t wide_rows = rows / rows_at_once;
  if (wide_rows > 1) {
    typename Op::Result folded[wide_width];
    std::fill_n(folded, wide, Op::identity);
    reduce_rows<Op>(x, wide_rows, wide, wide, folded, op);
    reduce_rows<typename Op::Merge>(folded, rows_at_once, width, width, result);
    x += wide_rows * wide;
    rows -= wide_rows * rows_at_once;
  }
  reduce_rows<Op>(x, rows, width, width, result, op);
}

// Rows of any width, by whichever of the ways is theirs.
template <class Op, class T>
void reduce_any_rows(const T* x, int64_t rows, int64_t stride, int64_t width,
                     typename Op::Result* result, const Op& op = Op()) {
  if (width == 1 && stride == 1) {
    result[0] = Op::combine(result[0], reduce_row<Op>(x, rows, op));
  } else if (stride == width && width < wide_width) {
    reduce_narrow_rows<Op>(x, rows, width, result, op);
  } else {
    reduce_rows<Op>(x, rows, stride, width, result, op);
  }
}

}  // namespace adret::cpu
