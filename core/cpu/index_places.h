// Indices along a dimension of a tensor, as kernels read them.
#pragma once

#include <adret/core/cpu/lines.h>
#include <adret/core/tensor_view.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace adret::cpu {

// Calls f with the indices, int32_t or int64_t.
template <class F>
void with_indices(const TensorView& indices, F f) {
  if (indices.dtype == DType::i32) return f(indices.as<int32_t>());
  f(indices.as<int64_t>());
}

// Whether the indices are the same for all lines, not each element's own.
inline bool are_alike(const TensorView& indices) { return indices.shape.rank() == 1; }

// Whether an index leads to one of `size` places.
inline bool is_within(int64_t index, int64_t size) { return uint64_t(index) < uint64_t(size); }

// f(i, all_within) for i of 0..count-1, block by block: whether all indices of a block lead to one
// of `size` places is found out at once, in vectors, so that f need not ask for each.
template <class Index, class F>
[[gnu::always_inline]] inline void each_block(const Index* indices, int64_t count, int64_t size,
                                              F f) {
  constexpr int64_t block = 256;
  using Bits = std::make_unsigned_t<Index>;
  const auto last = Bits(std::min<int64_t>(size - 1, std::numeric_limits<Index>::max()));
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t end = std::min(count, begin + block);
    Bits signs = 0;
    for (int64_t i = begin; i < end; ++i) signs |= Bits(indices[i]) | (last - Bits(indices[i]));
    if (Index(signs) >= 0) {
      for (int64_t i = begin; i < end; ++i) f(i, true);
    } else {
      for (int64_t i = begin; i < end; ++i) f(i, false);
    }
  }
}

// Elements with indices of their own as rows that lie together in memory and lead to one stretch of
// the other tensor: whole lines where lines are dense, else what stands side by side.
struct IndexedRows {
  int64_t rows, width;
  int64_t per_line;  // rows of a line

  explicit IndexedRows(const Lines& lines)
      : rows(lines.inner == 1 ? lines.outer : lines.outer * lines.length),
        width(lines.inner == 1 ? lines.length : lines.inner),
        per_line(lines.inner == 1 ? 1 : lines.length) {}
};

}  // namespace adret::cpu
