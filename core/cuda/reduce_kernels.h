// The kernels of reductions: threads that share an output, and how they divide the work.
#pragma once

#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/reduce_kept.h>
#include <adret/core/cuda/team.h>

#include <type_traits>

namespace adret::cuda {

// x as (outer, rows, inner), of which the rows are reduced. They are cut into chunks that are
// results of their own: (outer, chunks, inner).
struct Extents {
  int64_t outer, rows, inner;
  int64_t chunk_rows, chunks;
};

// Where the results go: what was kept, if others will go on with it, else values in the
// accumulator's type or in a narrower one, of sums after a division by `divisor`.
template <class Kept, class A>
struct Results {
  void* data;
  DType dtype;
  A divisor;
  A* means = nullptr;    // those of Moments, if wanted
  Kept* kept = nullptr;  // else the values are

  __device__ void store(int64_t i, const Kept& result) const {
    if (kept) {
      kept[i] = result;
      return;
    }
    if constexpr (std::is_same_v<Kept, Moments<A>>) {
      if (means) means[i] = result.mean;
    }
    const A value = value_of(result);
    if constexpr (std::is_same_v<A, float>) {
      if (dtype == DType::bf16) {
        static_cast<__nv_bfloat16*>(data)[i] = narrow<__nv_bfloat16>(value);
        return;
      }
      if (dtype == DType::f16) {
        static_cast<__half*>(data)[i] = narrow<__half>(value);
        return;
      }
    }
    if constexpr (std::is_same_v<A, int32_t>) {
      if (dtype == DType::u8) {
        static_cast<uint8_t*>(data)[i] = uint8_t(value);
        return;
      }
    }
    static_cast<A*>(data)[i] = value;
  }

 private:
  __device__ A value_of(const Kept& result) const {
    if constexpr (requires { result.finish(divisor); }) {
      return result.finish(divisor);
    } else if constexpr (std::is_integral_v<A>) {
      return result.value;
    } else {
      return result.value / divisor;
    }
  }
};

// Elements, or results of earlier launches, that a thread loads at once.
template <class T>
inline constexpr int reduce_vector = sizeof(T) < 16 ? 16 / int(sizeof(T)) : 1;

inline constexpr int reduce_unroll = 4;

// Takes the vectors at(first), at(first + step), ... before `end` into n kept values, each element
// into its own; where they belong `together`, whole vectors into the first if that is what a Kept
// prefers.
template <bool together, class Kept, class T, int n, class At>
__device__ inline void merge_vectors(Kept (&kept)[n], int64_t first, int64_t end, int64_t step,
                                     At at) {
  const auto merge = [&](const Vector<T, n>& vector) {
    if constexpr (together && !std::is_same_v<T, Kept> && requires { kept[0].add(vector); }) {
      kept[0].add(vector);
    } else {
#pragma unroll
      for (int k = 0; k < n; ++k) take(kept[k], vector.at[k]);
    }
  };
  int64_t i = first;
  for (; i + (reduce_unroll - 1) * step < end; i += reduce_unroll * step) {
    Vector<T, n> loaded[reduce_unroll];
#pragma unroll
    for (int u = 0; u < reduce_unroll; ++u) {
      loaded[u] = *reinterpret_cast<const Vector<T, n>*>(at(i + u * step));
    }
#pragma unroll
    for (int u = 0; u < reduce_unroll; ++u) merge(loaded[u]);
  }
  for (; i < end; i += step) merge(*reinterpret_cast<const Vector<T, n>*>(at(i)));
}

// All n in one, in pairs.
template <class Kept, int n>
__device__ inline Kept merged(Kept (&kept)[n]) {
#pragma unroll
  for (int half = n / 2; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) kept[k].merge(kept[k + half]);
  }
  return kept[0];
}

// An output for each thread, for few elements of each.
template <class Kept, class T, class A>
__global__ void reduce_each(const T* x, Extents extents, Results<Kept, A> results) {
  begin_kernel();
  const int64_t count = extents.outer * extents.inner;
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    const int64_t outer =
        count <= UINT32_MAX ? uint32_t(i) / uint32_t(extents.inner) : i / extents.inner;
    const T* const from = x + outer * (extents.rows - 1) * extents.inner + i;
    Kept kept[1];
    merge_vectors<true, Kept, T, 1>(kept, 0, extents.rows, 1,
                                    [&](int64_t row) { return from + row * extents.inner; });
    results.store(i, kept[0]);
  }
}

// Rows (inner = 1) of n * k elements, by `lanes` neighbours of a warp each.
template <int n, class Kept, class T, class A>
__global__ void reduce_short_rows(const T* x, Extents extents, Results<Kept, A> results,
                                  int lanes) {
  begin_kernel();
  const Lanes team(lanes);
  const int64_t at_once = all_threads() / lanes;
  // Whole warps go through the loop together.
  for (int64_t first = int64_t(blockIdx.x) * blockDim.x / lanes; first < extents.outer;
       first += at_once) {
    const int64_t row = first + threadIdx.x / lanes;
    Kept kept[n];
    if (row < extents.outer) {
      const T* const from = x + row * extents.rows;
      merge_vectors<true, Kept, T, n>(kept, team.rank(), extents.rows / n, lanes,
                                      [&](int64_t i) { return from + i * n; });
    }
    const Kept total = team.reduce(merged(kept));
    if (row < extents.outer && team.rank() == 0) results.store(row, total);
  }
}

// Chunks of rows (inner = 1) of any length and alignment, by a block each.
template <class Kept, class T, class A>
__global__ void __launch_bounds__(1024)
    reduce_long_rows(const T* x, Extents extents, Results<Kept, A> results) {
  begin_kernel();
  constexpr int n = reduce_vector<T>;
  const Block team;
  for (int64_t i = blockIdx.x; i < extents.outer * extents.chunks; i += gridDim.x) {
    const int64_t row = i / extents.chunks;
    const int64_t first = (i - row * extents.chunks) * extents.chunk_rows;
    const int64_t length = std::min(extents.chunk_rows, extents.rows - first);
    const T* const from = x + row * extents.rows + first;
    // Elements before the first whole vector and behind the last.
    const int64_t unaligned = int64_t(-reinterpret_cast<uintptr_t>(from) % 16 / sizeof(T));
    const int64_t head = std::min(length, unaligned), vectors = (length - head) / n;
    Kept kept[n];
    merge_vectors<true, Kept, T, n>(kept, team.rank(), vectors, team.size(),
                                    [&](int64_t vector) { return from + head + vector * n; });
    Kept total = merged(kept);
    if (team.rank() < head) take(total, from[team.rank()]);
    const int64_t tail = head + vectors * n + team.rank();
    if (tail < length) take(total, from[tail]);
    total = team.reduce(total);
    if (team.rank() == 0) results.store(i, total);
  }
}

// Chunks of columns (inner > 1), n * blockDim.x side by side, by a block each; inner is a multiple
// of n. blockDim.y is a power of two.
template <int n, class Kept, class T, class A>
__global__ void __launch_bounds__(1024)
    reduce_columns(const T* x, Extents extents, Results<Kept, A> results) {
  begin_kernel();
  extern __shared__ __align__(32) unsigned char shared[];  // Kept (n, blockDim.y, blockDim.x)
  Kept* const all = reinterpret_cast<Kept*>(shared);
  const int width = int(blockDim.x), height = int(blockDim.y), threads = width * height;
  const int thread = int(threadIdx.y) * width + int(threadIdx.x);
  const int64_t blocks = (extents.inner / n + width - 1) / width;
  for (int64_t i = blockIdx.x; i < extents.outer * extents.chunks * blocks; i += gridDim.x) {
    const int64_t chunk = i / blocks;  // of all outer ones
    const int64_t column = ((i - chunk * blocks) * width + threadIdx.x) * n;
    const int64_t outer = chunk / extents.chunks;
    const int64_t first = (chunk - outer * extents.chunks) * extents.chunk_rows;
    const int64_t end = std::min(extents.rows, first + extents.chunk_rows);
    const bool active = column < extents.inner;
    Kept kept[n];
    if (active) {
      const T* const from = x + outer * extents.rows * extents.inner + column;
      merge_vectors<false, Kept, T, n>(kept, first + threadIdx.y, end, height,
                                       [&](int64_t row) { return from + row * extents.inner; });
    }
#pragma unroll
    for (int k = 0; k < n; ++k) all[k * threads + thread] = kept[k];
    for (int half = height / 2; half > 0; half /= 2) {
      __syncthreads();
      if (int(threadIdx.y) < half) {
#pragma unroll
        for (int k = 0; k < n; ++k) {
          kept[k].merge(all[k * threads + thread + half * width]);
          all[k * threads + thread] = kept[k];
        }
      }
    }
    if (active && threadIdx.y == 0) {
#pragma unroll
      for (int k = 0; k < n; ++k) results.store(chunk * extents.inner + column + k, kept[k]);
    }
    __syncthreads();  // before the next round writes
  }
}

}  // namespace adret::cuda
