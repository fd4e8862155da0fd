// Sums down the columns of a matrix whose elements are computed, for normalisation.
#pragma once

#include <algorithm>
#include <cstdint>

namespace adret::cpu {

// Rows first..last-1 of `width` elements, `stride` apart.
struct MatrixBlock {
  int64_t first, last, stride, width;
};

// sums[c] = the sum of term(row * stride + c, c) over the block's rows: in T for a few rows, from
// there on in f64.
template <class T, class F>
void channel_sums(const MatrixBlock& block, double* sums, F term) {
  constexpr int64_t columns = 128, rows = 16;  // summed together
  for (int64_t column = 0; column < block.width; column += columns) {
    const int64_t width = std::min(columns, block.width - column);
    double total[columns] = {};
    for (int64_t row = block.first; row < block.last; row += rows) {
      T part[columns] = {};
      const int64_t end = std::min(block.last, row + rows);
      for (int64_t r = row; r < end; ++r) {
        const int64_t at = r * block.stride + column;
#pragma GCC ivdep
        for (int64_t c = 0; c < width; ++c) part[c] += term(at + c, column + c);
      }
      for (int64_t c = 0; c < width; ++c) total[c] += double(part[c]);
    }
    std::copy_n(total, width, sums + column);
  }
}

}  // namespace adret::cpu
