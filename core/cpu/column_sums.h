// Sums over the rows of a matrix: bias gradients.
#pragma once

#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cstdint>

namespace adret::cpu {

// The sum of `rows` vectors, `step` elements apart. Four at a time, as an addition takes that long.
template <class T>
Vector<T> sum_rows(const T* from, int64_t rows, int64_t step) {
  Vector<T> sums[4] = {};
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (int i = 0; i < 4; ++i) sums[i] += load(from + (row + i) * step);
  }
  for (; row < rows; ++row) sums[0] += load(from + row * step);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// to[column] = sum over rows of from (rows, columns); zero for no rows.
template <class T>
void column_sums(const T* from, int64_t rows, int64_t columns, T* to) {
  const int64_t grain = std::max<int64_t>(16, items_per_chunk(1 << 15, columns));
  const int64_t parts = std::max<int64_t>(1, chunk_count(rows, grain));
  const auto sum_part = [&](int64_t begin, int64_t end, T* sums) {
    const T* part = from + begin * columns;
    int64_t column = 0;
    for (; column + lanes<T> <= columns; column += lanes<T>) {
      store(sums + column, sum_rows(part + column, end - begin, columns));
    }
    std::fill(sums + column, sums + columns, T(0));
    for (int64_t row = begin; row < end && column < columns; ++row, part += columns) {
      for (int64_t c = column; c < columns; ++c) sums[c] += part[c];
    }
  };
  if (parts == 1) {
    sum_part(0, rows, to);
    return;
  }
  const Workspace<T> partial(parts * columns);
  T* const sums = partial.data();
  parallel_chunks(rows, grain, [&](int64_t part, int64_t begin, int64_t end) {
    sum_part(begin, end, sums + part * columns);
  });
  std::copy_n(sums, columns, to);
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t c = 0; c < columns; ++c) to[c] += sums[part * columns + c];
  }
}

}  // namespace adret::cpu
