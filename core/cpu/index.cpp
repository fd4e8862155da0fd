// Kernels that only move elements.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/index_places.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/cpu/runs.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cstring>

namespace adret::cpu {
namespace {

// y's dimensions with the strides in x, those that x passes as one merged, from the outermost on.
struct Layout {
  int rank = 0;
  std::array<int64_t, Shape::max_rank> size{}, x_stride{}, y_stride{};

  explicit Layout(const kernels::Permute& call) {
    std::array<int64_t, Shape::max_rank> strides{};
    int64_t stride = 1;
    for (int d = call.x.shape.rank() - 1; d >= 0; --d) {
      strides[size_t(d)] = stride;
      stride *= call.x.shape[d];
    }
    for (int d = 0; d < call.y.shape.rank(); ++d) {
      add(call.y.shape[d], strides[size_t(call.order[size_t(d)])]);
    }
    stride = 1;
    for (size_t d = size_t(rank); d-- > 0; stride *= size[d]) y_stride[d] = stride;
  }

  // The dimension along which x is dense; the last one for a plain copy.
  size_t dense() const {
    return size_t(std::find(x_stride.begin(), x_stride.begin() + rank, 1) - x_stride.begin());
  }

 private:
  void add(int64_t length, int64_t stride) {
    if (length == 1) return;
    const size_t last = size_t(rank - 1);
    if (rank > 0 && x_stride[last] == length * stride) {
      size[last] *= length;
      x_stride[last] = stride;
      return;
    }
    size[size_t(rank)] = length;
    x_stride[size_t(rank)] = stride;
    ++rank;
  }
};

// Vectors and rows of a square that registers transpose.
template <class T>
inline constexpr int square = std::min(lanes<T>, 16);

// y[i * y_stride + j] = x[i + j * x_stride] for a square, but for the first `done` i. Each round
// interleaves the halves, so that what differs in the highest bit of its place comes together.
template <class T>
void transpose_square(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t done) {
  constexpr int n = square<T>;
  using V = typename VectorOfLanes<T, n>::type;
  V low, high;
  for (int i = 0; i < n; ++i) {
    low[i] = T(i / 2 + (i % 2 ? n : 0));
    high[i] = T(low[i] + n / 2);
  }
  V v[n], mixed[n];
#pragma GCC unroll 16
  for (int j = 0; j < n; ++j) std::memcpy(&v[j], x + j * x_stride, sizeof(V));
#pragma GCC unroll 4
  for (int round = 1; round < n; round *= 2) {
#pragma GCC unroll 8
    for (int k = 0; k < n / 2; ++k) {
      mixed[2 * k] = __builtin_shuffle(v[k], v[k + n / 2], low);
      mixed[2 * k + 1] = __builtin_shuffle(v[k], v[k + n / 2], high);
    }
#pragma GCC unroll 16
    for (int k = 0; k < n; ++k) v[k] = mixed[k];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) {
    if (i >= done) std::memcpy(y + i * y_stride, &v[i], sizeof(V));
  }
}

// The rows begin..end-1, one square high at most, of y[i * y_stride + j] = x[i + j * x_stride].
// The last square of either direction covers some of what the one before it did.
template <class T>
void transpose_rows(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t begin,
                    int64_t end, int64_t columns) {
  constexpr int64_t n = square<T>;
  if (end < n || columns < n) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < columns; ++j) y[i * y_stride + j] = x[i + j * x_stride];
    }
    return;
  }
  const int64_t first = std::min(begin, end - n), done = begin - first;
  x += first;
  y += first * y_stride;
  for (int64_t j = 0; j < columns; j += n) {
    const int64_t column = std::min(j, columns - n);
    transpose_square(x + column * x_stride, x_stride, y + column, y_stride, done);
  }
}

// The last dimension of y and the one along which x is dense are transposed, a strip of rows at a
// time; the others and the strips are looped over.
template <class T>
void permute(const kernels::Permute& call, const Layout& layout) {
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  const size_t last = size_t(layout.rank - 1), dense = layout.dense();
  const int64_t rows = layout.size[dense], columns = layout.size[last];
  LoopNest<2> outer;  // offsets in x and y
  for (size_t d = 0; d < last; ++d) {
    if (d != dense) outer.add(layout.size[d], {layout.x_stride[d], layout.y_stride[d]});
  }
  const int64_t height = square<T>, strips = chunk_count(rows, height);
  parallel_for(
      outer.total() * strips, items_per_chunk(memory_grain, std::min(rows, height) * columns),
      [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) {
          const auto offsets = outer.offsets(item / strips);
          const int64_t row = item % strips * height;
          transpose_rows(x + offsets[0], layout.x_stride[last], y + offsets[1],
                         layout.y_stride[dense], row, std::min(rows, row + height), columns);
        }
      });
}

// Dimensions of y, from the one on along which x is dense, that are too short to be transposed: a
// table tells where the elements of their block stand in x.
constexpr int64_t block_limit = 1024;

template <class T>
void permute_blocks(const kernels::Permute& call, const Layout& layout, int64_t block) {
  LoopNest<1> inner, outer;
  for (size_t d = 0; d < size_t(layout.rank); ++d) {
    (d < layout.dense() ? outer : inner).add(layout.size[d], {layout.x_stride[d]});
  }
  std::array<int64_t, block_limit> places;
  inner.for_runs(0, block, [&](int64_t first, const auto& from, int64_t length) {
    for (int64_t i = 0; i < length; ++i) {
      places[size_t(first + i)] = from[0] + i * inner.inner_strides()[0];
    }
  });
  const T* x = call.x.as<T>();
  T* y = call.y.as<T>();
  outer.parallel_runs(items_per_chunk(memory_grain, block),
                      [&](int64_t first, const auto& from, int64_t length) {
                        const T* in = x + from[0];
                        T* out = y + first * block;
                        for (int64_t i = 0; i < length; ++i, out += block) {
                          for (int64_t j = 0; j < block; ++j) out[j] = in[places[size_t(j)]];
                          in += outer.inner_strides()[0];
                        }
                      });
}

// Runs of x, dense, one after the other.
void copy_rows(const kernels::Permute& call, const Layout& layout) {
  const int64_t length = layout.size[size_t(layout.rank - 1)];
  const auto size = int64_t(size_of(call.y.dtype));
  LoopNest<1> rows;
  for (size_t d = 0; d + 1 < size_t(layout.rank); ++d)
    rows.add(layout.size[d], {layout.x_stride[d] * size});
  const auto* x = call.x.as<std::byte>();
  auto* y = call.y.as<std::byte>();
  rows.parallel_runs(items_per_chunk(memory_grain, length),
                     [&](int64_t first, const auto& from, int64_t count) {
                       copy_runs(x + from[0], rows.inner_strides()[0], y + first * length * size,
                                 length * size, count, size_t(length * size));
                     });
}

// -- gathering -----------------------------------------------------------------------------------

// What an element is whose index lies outside the dimension: NaN, or 0 of no float.
int absent_byte(DType dtype) { return is_floating(dtype) ? 0xFF : 0; }

// Runs of `inner` elements that share an index.
template <class Index>
void gather_rows(const kernels::Gather& call, const Lines& to, const Index* indices) {
  const int64_t size = call.x.shape[call.dim];
  const size_t bytes = size_t(to.inner) * size_of(call.y.dtype);
  const auto* x = call.x.as<std::byte>();
  auto* y = call.y.as<std::byte>();
  parallel_for(to.outer * to.length, items_per_chunk(memory_grain, to.inner),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t outer = row / to.length;
                   const int64_t index = indices[row - outer * to.length];
                   std::byte* const out = y + size_t(row) * bytes;
                   if (is_within(index, size)) {
                     copy_run(x + size_t(outer * size + index) * bytes, out, bytes);
                   } else {
                     std::memset(out, absent_byte(call.y.dtype), bytes);
                   }
                 }
               });
}

template <class T, class Index>
void gather_elements(const kernels::Gather& call, const Lines& to, const Index* indices) {
  const int64_t size = call.x.shape[call.dim], inner = to.inner;
  const IndexedRows places(to);
  T absent;
  std::memset(&absent, absent_byte(call.y.dtype), sizeof(T));
  parallel_for(places.rows, items_per_chunk(memory_grain, places.width),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const T* const x = call.x.as<T>() + row / places.per_line * size * inner;
                   T* const y = call.y.as<T>() + row * places.width;
                   const Index* const at = indices + row * places.width;
                   // Dense lines, the common case, take no products an element.
                   const auto take = [&](auto line) {
                     each_block(at, places.width, size, [&](int64_t c, bool all_within) {
                       const int64_t index = at[c];
                       y[c] = all_within || is_within(index, size) ? line(index, c) : absent;
                     });
                   };
                   if (inner == 1) {
                     take([&](int64_t index, int64_t) { return x[index]; });
                   } else {
                     take([&](int64_t index, int64_t c) { return x[index * inner + c]; });
                   }
                 }
               });
}

}  // namespace

void run(const kernels::Permute& call) {
  if (call.y.numel() == 0) return;
  const Layout layout(call);
  if (layout.rank <= 1) return run(kernels::Copy{.x = call.x, .y = call.y});
  if (layout.x_stride[size_t(layout.rank - 1)] == 1) return copy_rows(call, layout);
  int64_t block = 1;
  for (size_t d = layout.dense(); d < size_t(layout.rank); ++d) block *= layout.size[d];
  dispatch_size(call.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (block <= block_limit) return permute_blocks<T>(call, layout, block);
    permute<T>(call, layout);
  });
}

void run(const kernels::CopyRuns& call) {
  const auto size = int64_t(size_of(call.y.dtype)), bytes = call.length * size;
  if (bytes == 0) return;
  const int64_t x_step = call.x_stride * size, y_step = call.y_stride * size;
  const std::byte* const x = call.x.as<std::byte>() + call.x_offset * size;
  std::byte* const y = call.y.as<std::byte>() + call.y_offset * size;
  parallel_for(call.count, items_per_chunk(memory_grain, call.length),
               [&](int64_t begin, int64_t end) {
                 copy_runs(x + begin * x_step, x_step, y + begin * y_step, y_step, end - begin,
                           size_t(bytes));
               });
}

void run(const kernels::Gather& call) {
  if (call.y.numel() == 0) return;
  const Lines to(call.y.shape, call.dim);
  with_indices(call.indices, [&](const auto* indices) {
    if (are_alike(call.indices)) return gather_rows(call, to, indices);
    dispatch_size(call.y.dtype,
                  [&](auto zero) { gather_elements<decltype(zero)>(call, to, indices); });
  });
}

}  // namespace adret::cpu
