// Indices along a dimension of a tensor, as kernels read them.
#pragma once

#include <adret/core/cpu/lines.h>
#include <adret/core/tensor_view.h>

#include <cstdint>

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

// Elements with indices of their own as rows that lie together in memory and lead to one stretch of
// the other tensor: whole lines where lines are dense, else what stands side by side.
struct IndexedRows {
  int64_t rows, width;
  int64_t step;      // to the next column in the stretch
  int64_t per_line;  // rows of a line

  explicit IndexedRows(const Lines& lines)
      : rows(lines.inner == 1 ? lines.outer : lines.outer * lines.length),
        width(lines.inner == 1 ? lines.length : lines.inner),
        step(lines.inner == 1 ? 0 : 1),
        per_line(lines.inner == 1 ? 1 : lines.length) {}
};

}  // namespace adret::cpu
