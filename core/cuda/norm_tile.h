// How batch normalisation shares out x (..., C), and its sums over rows.
#pragma once

#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/vectors.h>
#include <adret/core/tensor_view.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace adret::cuda {

// Note [Batch normalisation on CUDA]
// A block takes a slice of neighbouring channels, 128 bytes where there are that many, and many
// rows at a time. blockIdx.x counts slices, blockIdx.y the blocks that share the rows of one. Sums
// run in the accumulator's type within a thread, a few hundred rows, and in f64 from there on.
// Blocks that share a slice leave their sums in the workspace; the last one of them adds these up
// and makes the coefficients of the channels, which a second kernel applies. A slice that has one
// block only is finished by it in the same launch.

inline constexpr int max_width = 8;             // vectors of a slice
inline constexpr int sum_threads = 512;         // of a block that sums, at most
inline constexpr int max_shared_slices = 1024;  // slices that several blocks may share

// x (..., C) as a matrix.
struct Rows {
  int64_t count, channels;

  // Vectors of n channels that a slice has: a power of two.
  template <int n>
  __host__ __device__ int width() const {
    int width = 1;
    while (width < max_width && width * n < channels) width *= 2;
    return width;
  }
};

inline Rows rows_of(const TensorView& x) {
  const int64_t channels = x.shape[-1];
  return {channels == 0 ? 0 : x.numel() / channels, channels};
}

// One block a slice for few rows, else as many as leave eight rows to a thread.
template <int n>
Grid grid_for_sums(const Context& context, const Rows& rows) {
  const int64_t width = rows.width<n>(), slices = divide_up(rows.channels, width * n);
  const uint64_t height = std::bit_ceil(uint64_t(std::clamp<int64_t>(rows.count, 1, sum_threads)));
  const int64_t threads = std::clamp<int64_t>(int64_t(height) * width, 64, sum_threads);
  const int64_t useful = rows.count / (threads / width * 8);
  const int64_t resident = int64_t(context.multiprocessors()) / slices;
  const int64_t blocks = slices > max_shared_slices ? 1 : std::min(useful, resident);
  return {.blocks = dim3(unsigned(slices), unsigned(std::max<int64_t>(1, blocks))),
          .threads = unsigned(threads)};
}

// For a pass without sums.
template <int n>
Grid grid_for_rows(const Context& context, const Rows& rows) {
  const int64_t width = rows.width<n>(), slices = divide_up(rows.channels, width * n);
  const int64_t useful = divide_up(rows.count, 256 / width * 4);
  const int64_t most = int64_t(context.multiprocessors()) * 16 / std::max<int64_t>(1, slices);
  return {.blocks = dim3(unsigned(slices), unsigned(std::clamp<int64_t>(most, 1, useful)))};
}

// A thread's place in the matrix: n channels from `channel` on, and every step-th row from `first`.
template <int n>
struct Place {
  int64_t channel, first, step;
  int width, in_slice;  // in_slice: its first channel's number in the slice
  bool exists;

  __device__ explicit Place(const Rows& rows) : width(rows.width<n>()) {
    const int column = int(threadIdx.x) & (width - 1), height = int(blockDim.x) / width;
    in_slice = column * n;
    channel = int64_t(blockIdx.x) * width * n + in_slice;
    exists = channel < rows.channels;
    first = int64_t(blockIdx.y) * height + int(threadIdx.x) / width;
    step = int64_t(gridDim.y) * height;
  }
};

// -- sums ----------------------------------------------------------------------------------------

struct alignas(16) Pair {
  double a, b;
  __device__ void merge(const Pair& other) {
    a += other.a;
    b += other.b;
  }
};

// Room in shared memory for the sums of a block's warps, or of its threads.
template <int n>
struct SharedSums {
  Pair at[sum_threads / 32 * max_width * n > sum_threads ? sum_threads / 32 * max_width* n
                                                         : sum_threads];
};

// The total of `count` rows of `channels` pairs, for the channel of each of the first threads.
__device__ inline Pair sum_shared(const Pair* rows, int count, int channels) {
  Pair total{};
  if (int(threadIdx.x) < channels) {
#pragma unroll 4
    for (int i = 0; i < count; ++i) total.merge(rows[i * channels + int(threadIdx.x)]);
  }
  return total;
}

// The sums over the block's rows; thread i < width * n gets that of the slice's channel i.
template <int n>
__device__ Pair sum_block(Pair (&sums)[n], int width, SharedSums<n>& shared) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, channels = width * n;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    for (int distance = 16; distance >= width; distance /= 2) {
      sums[k].merge(shuffle_xor(sums[k], distance));
    }
    if (lane < width) shared.at[warp * channels + lane * n + k] = sums[k];
  }
  __syncthreads();
  return sum_shared(shared.at, int(blockDim.x) / 32, channels);
}

// The sums over all rows, in the last block of each slice to come; false in the others. `partials`
// has a Pair for each slice channel and block; the counters, one a slice, are zero. What the last
// block does alone is short code in loops, as the device waits for it, and for its code.
template <int n>
__device__ bool sum_slice(Pair (&sums)[n], const Place<n>& place, Pair* partials,
                          unsigned* counters, Pair& total) {
  __shared__ SharedSums<n> shared;
  const int channels = place.width * n, blocks = int(gridDim.y), own = int(threadIdx.x);
  total = sum_block<n>(sums, place.width, shared);
  if (blocks == 1) return true;
  Pair* const slice = partials + int64_t(blockIdx.x) * blocks * channels;
  if (own < channels) slice[int64_t(blockIdx.y) * channels + own] = total;
  if (!is_last_block(&counters[blockIdx.x], gridDim.y)) return false;
  const int teams = int(blockDim.x) / channels;  // each sums some blocks' partials
  constexpr int at_once = 8;
  Pair mine{};
#pragma unroll 1
  for (int i = own / channels; i < blocks; i += at_once * teams) {
    double2 part[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const Pair* const from = slice + (i + k * teams) * channels + own % channels;
      part[k] = i + k * teams < blocks ? __ldcg(reinterpret_cast<const double2*>(from)) : double2{};
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) mine.merge({part[k].x, part[k].y});
  }
  shared.at[own] = mine;
  __syncthreads();
  total = sum_shared(shared.at, teams, channels);
  return true;
}

// Pairs that sum_slice needs.
template <int n>
int64_t partials_for(const Grid& grid, const Rows& rows) {
  if (grid.blocks.y == 1) return 0;
  return int64_t(grid.blocks.x) * grid.blocks.y * rows.width<n>() * n;
}

// -- elements ------------------------------------------------------------------------------------

template <class A>
__device__ A relu(A value) {
  return value <= 0 ? A(0) : value;  // keeps NaN
}

}  // namespace adret::cuda
