// How a reduction is cut into pieces.
#pragma once

#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/kernels/reduce.h>

#include <algorithm>
#include <array>

namespace adret::cpu {

// Note [Reductions]
// The innermost kept dimensions, if nothing is reduced inside them, are `width` outputs side by
// side; every index of the reduced dimensions is then a row of `width` elements. Rows are cut into
// chunks and columns into blocks by the sizes alone; the chunks' results are combined in order, so
// the result has the same bits for any number of threads. Sums are kept in f64, those of f32 as
// Note [Sums of f32] says.

inline constexpr int64_t block_width = 256;  // reduced together: their results stay in the L1 cache
inline constexpr int64_t chunk_elements = 32768;

struct ReducePlan {
  LoopNest<1> outer;  // kept dimensions outside the last reduced one, with their strides in x
  LoopNest<1> rows;   // reduced dimensions
  int64_t width = 1;

  explicit ReducePlan(const kernels::Reduce& call) {
    const Shape& shape = call.x.shape;
    // Sizes of 1 count as kept, so that the innermost reduced dimension has the stride `width`.
    const auto is_reduced = [&](int d) { return (call.dims >> d & 1) != 0 && shape[d] != 1; };
    int inner = shape.rank();  // the first of the innermost kept dimensions
    for (; inner > 0 && !is_reduced(inner - 1); --inner) width *= shape[inner - 1];
    std::array<int64_t, Shape::max_rank> strides{};
    int64_t stride = width;
    for (int d = inner - 1; d >= 0; --d) {
      strides[size_t(d)] = stride;
      stride *= shape[d];
    }
    for (int d = 0; d < inner; ++d)
      (is_reduced(d) ? rows : outer).add(shape[d], {strides[size_t(d)]});
  }

  int64_t blocks() const { return chunk_count(width, block_width); }
  int64_t rows_per_chunk() const {
    return items_per_chunk(chunk_elements, std::min(width, block_width));
  }
  int64_t chunks() const {
    return std::max<int64_t>(1, chunk_count(rows.total(), rows_per_chunk()));
  }

  // Outputs are blocks of columns: how many, how wide at most, and of one its width and its place
  // in the result.
  int64_t outputs() const { return outer.total() * blocks(); }
  int64_t pitch() const { return std::min(width, block_width); }
  int64_t columns(int64_t output) const { return std::min(block_width, width - column(output)); }
  int64_t place(int64_t output) const { return output / blocks() * width + column(output); }

  int64_t first_row(int64_t chunk) const {
    return std::min(rows.total(), chunk * rows_per_chunk());
  }
  // f(place in x, rows) for the runs of rows in a chunk, which lie a fixed stride apart.
  template <class F>
  void for_chunk(int64_t output, int64_t chunk, F f) const {
    const int64_t at = outer.offsets(output / blocks())[0] + column(output);
    const int64_t first = first_row(chunk), last = first_row(chunk + 1);
    if (first == 0 && last == rows.inner_size()) return f(at, last);
    rows.for_runs(first, last,
                  [&](int64_t, const auto& offsets, int64_t count) { f(at + offsets[0], count); });
  }

 private:
  int64_t column(int64_t output) const { return output % blocks() * block_width; }
};

}  // namespace adret::cpu
