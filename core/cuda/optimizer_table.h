// What kernels over arenas share: blocks that find their segments, and 16-byte pieces of these.
#pragma once

#include <adret/core/cuda/group.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/kernels/optimizer.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace adret::cuda::arena {

using kernels::Segment;

// Note [Stretches]
// The arenas are cut into stretches of equally many bytes of values, a block each, so that the work
// is balanced for any lengths of segments. A block searches the table for its first segment, reads
// the rows of the next few at once, and then every thread takes 16 bytes of values at a time, which
// are of one segment because offsets are multiples of 16.

constexpr int threads = 256;
constexpr int vector_bytes = 16;
constexpr int batch = 32;  // rows read at once

struct Table {
  const Segment* segments;
  int count;
  int64_t bytes;    // of the value arena
  int64_t stretch;  // bytes of a block, a multiple of 16
};

// A row of the table in shared memory.
template <class Rates>
struct Row {
  int64_t begin, end, next;  // bytes in the arena; `next` is where the segment behind begins
  int64_t state_offset;
  DType dtype;
  Rates rates;
};

// The last segment that begins at or before `byte`, found by all threads together.
__device__ inline int find_segment(const Table& table, int64_t byte) {
  int low = 0, high = table.count;
  while (high - low > 1) {
    const int step = (high - low + threads - 1) / threads;
    const int64_t at = low + int64_t(threadIdx.x) * step;
    const bool before = at < high && table.segments[at].value_offset <= byte;
    low += max(__syncthreads_count(before) - 1, 0) * step;
    high = min(high, low + step);
  }
  return low;
}

// Which segments a kernel goes through.
enum class Takes { active, with_gradient, all };

template <Takes takes>
__device__ bool is_taken(const Segment& segment) {
  if (takes == Takes::active) return segment.active;
  return takes == Takes::all || segment.has_gradient;
}

// visit(rows, first, count, begin, end) for a few rows at a time of the segments that meet this
// block's stretch: rows[0] is that of segment `first`, and bytes begin..end-1 of the arena are the
// stretch's part of these rows. prepare(segment, index) makes a row's rates. A row whose segment is
// not taken is empty.
template <class Rates, Takes takes = Takes::active, class Prepare, class Visit>
__device__ void for_rows(const Table& table, Prepare prepare, Visit visit) {
  __shared__ Row<Rates> rows[batch];
  const int64_t begin = int64_t(blockIdx.x) * table.stretch;
  const int64_t end = min(begin + table.stretch, table.bytes);
  for (int first = find_segment(table, begin); first < table.count; first += batch) {
    if (table.segments[first].value_offset >= end) break;
    const int count = min(batch, table.count - first);
    if (threadIdx.x < count) {
      const int index = first + int(threadIdx.x);
      const Segment segment = table.segments[index];
      const int64_t bytes =
          is_taken<takes>(segment) ? segment.length * int64_t(size_of(DType(segment.dtype))) : 0;
      rows[threadIdx.x] = {.begin = segment.value_offset,
                           .end = segment.value_offset + bytes,
                           .next = index + 1 < table.count ? table.segments[index + 1].value_offset
                                                           : std::numeric_limits<int64_t>::max(),
                           .state_offset = segment.state_offset,
                           .dtype = DType(segment.dtype),
                           .rates = prepare(segment, index)};
    }
    __syncthreads();
    visit(rows, first, count, max(begin, rows[0].begin), min(end, rows[count - 1].next));
    __syncthreads();  // before the rows are overwritten
  }
}

// visit(row, place) for the 16-byte pieces of the segments that are taken in this block's stretch,
// `place` being the piece's byte in its segment.
template <class Rates, Takes takes = Takes::active, class Prepare, class Visit>
__device__ void for_pieces(const Table& table, Prepare prepare, Visit visit) {
  for_rows<Rates, takes>(table, prepare,
                         [&](const Row<Rates>* rows, int, int, int64_t from, int64_t to) {
                           int row = 0;
                           for (int64_t at = from + threadIdx.x * vector_bytes; at < to;
                                at += threads * vector_bytes) {
                             while (rows[row].next <= at) ++row;
                             if (at < rows[row].end) visit(rows[row], at - rows[row].begin);
                           }
                         });
}

// A piece of a segment, and where it lies in the arenas.
template <class T>
struct Piece {
  static constexpr int n = vector_bytes / int(sizeof(T));

  template <class Rates>
  __device__ Piece(const Row<Rates>& row, int64_t place)
      : count((row.end - row.begin - place) / int64_t(sizeof(T))),
        whole(count >= n),
        value_offset(row.begin + place),
        state_offset(row.state_offset + place / int64_t(sizeof(T)) * int64_t(sizeof(A))) {}

  using A = Accumulator<T>;
  __device__ Group<T, n> load_value(const std::byte* arena) const {
    Group<T, n> group;
    group.load(reinterpret_cast<const T*>(arena + value_offset), count, whole);
    return group;
  }
  __device__ void store_value(std::byte* arena, Group<T, n>& group) const {
    group.store(reinterpret_cast<T*>(arena + value_offset), count, whole);
  }
  __device__ Group<A, n> load_state(const std::byte* arena) const {
    Group<A, n> group;
    group.load(reinterpret_cast<const A*>(arena + state_offset), count, whole);
    return group;
  }
  __device__ void store_state(std::byte* arena, Group<A, n>& group) const {
    group.store(reinterpret_cast<A*>(arena + state_offset), count, whole);
  }

  int64_t count;  // elements to the end of the segment
  bool whole;
  int64_t value_offset, state_offset;  // bytes in the arenas
};

// f(piece) with the piece in its dtype.
template <class Rates, class F>
__device__ void dispatch_piece(const Row<Rates>& row, int64_t place, F f) {
  switch (row.dtype) {
    case DType::f32: return f(Piece<float>(row, place));
    case DType::f64: return f(Piece<double>(row, place));
    case DType::bf16: return f(Piece<__nv_bfloat16>(row, place));
    default: return f(Piece<__half>(row, place));
  }
}

// What a step multiplies with, in both dtypes that it may be computed in.
template <template <class> class Rates>
struct InBoth {
  Rates<float> f32;
  Rates<double> f64;

  __device__ const Rates<float>& in(float) const { return f32; }
  __device__ const Rates<double>& in(double) const { return f64; }
};

// Of kernels that need none.
struct NoRates {};

struct MakeNoRates {
  __device__ NoRates operator()(const Segment&, int) const { return {}; }
};

// -- launching ------------------------------------------------------------------------------------

// A stretch is what a block's threads take in 1 to 16 turns.
inline Table table_of(const Context& context, const TensorView& arena, const TensorView& segments) {
  constexpr int64_t turn = threads * vector_bytes;
  const int64_t bytes = int64_t(arena.bytes());
  const int64_t turns = divide_up(bytes, turn * 8 * context.multiprocessors());
  return {.segments = segments.as<Segment>(),
          .count = int(segments.shape[0]),
          .bytes = bytes,
          .stretch = turn * std::clamp<int64_t>(turns, 1, 16)};
}

// At least one block, for what the last one does.
inline Grid grid_of(const Table& table) {
  return {.blocks = dim3(unsigned(std::max<int64_t>(1, divide_up(table.bytes, table.stretch)))),
          .threads = threads};
}

inline std::byte* start(const TensorView& arena) { return arena.as<std::byte>(); }

}  // namespace adret::cuda::arena
