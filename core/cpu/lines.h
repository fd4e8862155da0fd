// A tensor as lines along one dimension, and the loop over all of them.
#pragma once

#include <adret/core/cpu/grain.h>
#include <adret/core/shape.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cstdint>

namespace adret::cpu {

inline constexpr int64_t lines_width = 256;  // lines side by side that are taken together

// (outer, length, inner): lines run along `length`.
struct Lines {
  int64_t outer = 1, length, inner = 1;

  Lines(const Shape& shape, int dim) : length(shape[dim]) {
    for (int d = 0; d < dim; ++d) outer *= shape[d];
    for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  }
  int64_t blocks() const { return chunk_count(inner, lines_width); }

  // f(first, offset, width) for every block of neighbouring lines, on all threads: the number of
  // its first line, and the place of that line's first element. The width is 1 when inner is.
  template <class F>
  void for_blocks(F f) const {
    const int64_t elements = length * std::min(inner, lines_width);
    parallel_for(outer * blocks(), items_per_chunk(math_grain, elements),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t block = begin; block < end; ++block) {
                     const int64_t column = block % blocks() * lines_width, of = block / blocks();
                     f(of * inner + column, of * length * inner + column,
                       std::min(lines_width, inner - column));
                   }
                 });
  }
};

}  // namespace adret::cpu
