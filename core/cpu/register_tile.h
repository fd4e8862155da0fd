// The innermost loop of convolutions and small matrix products: a tile of outputs held in vector
// registers, to which products of scalars of A and vectors of B are added.
#pragma once

#include <adret/core/cpu/vector.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace adret::cpu {

// Note [Register tiles]
// tile[row][lane] += sum over k of a[row, k] * b[k, lane]
// keeps ROWS x VECTORS vectors in registers and needs, for each k, VECTORS loads and ROWS
// broadcasts. A is used where it lies, unpacked: k goes through `runs` runs of `length` elements;
// run r starts `offset[r]` behind `a`. B is dense over all runs: row k starts k * ldb behind `b`.
// The three directions of a convolution are this product:
//   forward          rows = output pixels, k = taps (a run per kernel row), lanes = outputs
//   backward input   rows = output pixels, k = outputs,                     lanes = taps
//   backward weight  rows = taps, k = output pixels (a run per image row),  lanes = outputs
struct Runs {
  const int64_t* offset;
  int64_t count, length;
};

// How an element of A is found: a[row * row_step + k * k_step], one of the steps being 1. Rows may
// lie in BANDS bands of equal height, band_step apart.
enum class Adjacent { k, rows };

// Rows for which VECTORS columns leave registers for one row of B and a broadcast.
template <int VECTORS>
inline constexpr int max_rows = std::min(12, (vector_registers - 2) / VECTORS - 1);

template <class T, int ROWS, int VECTORS>
struct RegisterTile {
  Vector<T> at[ROWS][VECTORS];

  // f(vector, row, column) for every vector; unrolled, so that the tile stays in registers.
  template <class F>
  [[gnu::always_inline]] void each(F f) {
#pragma GCC unroll 12
    for (int row = 0; row < ROWS; ++row) {
#pragma GCC unroll 4
      for (int column = 0; column < VECTORS; ++column) f(at[row][column], row, column);
    }
  }

  template <Adjacent ADJACENT, int BANDS = 1>
  [[gnu::always_inline]] void multiply_add(const T* a, int64_t step, const T* b, int64_t ldb,
                                           const Runs& runs, int64_t band_step = 0) {
    constexpr int band = ROWS / BANDS;
    const int64_t row_step = ADJACENT == Adjacent::rows ? 1 : step;
    const int64_t k_step = ADJACENT == Adjacent::rows ? step : 1;
    for (int64_t run = 0; run < runs.count; ++run) {
      const T* element = a + runs.offset[run];
      for (int64_t k = 0; k < runs.length; ++k, element += k_step, b += ldb) {
        Vector<T> b_row[VECTORS];
#pragma GCC unroll 4
        for (int column = 0; column < VECTORS; ++column) {
          b_row[column] = load(b + column * lanes<T>);
        }
        each([&](Vector<T>& sum, int row, int column) {
          sum += element[row / band * band_step + row % band * row_step] * b_row[column];
        });
      }
    }
  }
};

// Calls f with std::integral_constant<int, value> for a value in 1..MAX.
template <int MAX, class F>
[[gnu::always_inline]] inline void with_constant(int64_t value, F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (void)((value == I + 1 && (f(std::integral_constant<int, I + 1>{}), true)) || ...);
  }
  (std::make_integer_sequence<int, MAX>{});
}

// Splits n rows into as few tiles as possible of nearly equal height: f(first row,
// integral_constant of rows).
template <int MAX, class F>
void for_each_tile(int64_t n, F&& f) {
  const int64_t tiles = (n + MAX - 1) / MAX;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t begin = n * tile / tiles, end = n * (tile + 1) / tiles;
    with_constant<MAX>(end - begin, [&](auto rows) { f(begin, rows); });
  }
}

}  // namespace adret::cpu
