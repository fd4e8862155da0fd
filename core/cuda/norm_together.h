// What the kernels share that run batch normalisation in one launch.
#pragma once

#include <adret/core/cuda/grid_barrier.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/norm_share.h>
#include <adret/core/cuda/norm_tile.h>
#include <cuda_pipeline.h>

#include <cstring>
#include <utility>

namespace adret::cuda {

// Note [Batch normalisation in one launch]
// The blocks of a slice of channels, one block a multiprocessor, share its rows. Each copies its
// own to shared memory, as many as fit, sums them as they come, and tells the others its sums. When
// it has those of all, which it adds up in the same order as they do, it makes the coefficients and
// applies them to what it kept. Rows that do not fit are read last, and again, first, while the
// cache has them. A vector is copied, summed and written by the same thread, so copies need no
// barrier of the block.
// A slice of up to 8 blocks can be a thread block cluster: the blocks write their sums into each
// other's shared memory, and any number of slices goes. Else the sums go through the workspace, all
// blocks are launched together, and those of a slice meet at a counter.

// A thread's vectors of n channels: `count` ones, from `first` on, `step` elements apart.
template <int n>
struct Part {
  int64_t channel, first;
  int step, count, in_slice;  // in_slice: its first channel's number in the slice

  __device__ Part(const Rows& rows, const Share& share) {
    const int column = int(threadIdx.x) & (share.width - 1), line = int(threadIdx.x) / share.width;
    const int height = together_threads / share.width;
    in_slice = column * n;
    channel = int64_t(blockIdx.y) * share.width * n + in_slice;
    const int64_t before = int64_t(blockIdx.x) * share.rows;
    const int64_t own = min(share.rows, rows.count - before);
    count = channel < rows.channels && line < own ? int((own - 1 - line) / height) + 1 : 0;
    first = (before + line) * rows.channels + channel;
    step = height * int(rows.channels);
  }
  __device__ int64_t at(int k) const { return first + int64_t(k) * step; }
  __device__ bool exists() const { return count > 0; }
};

// The first vectors of each thread of a block, `room` in all, in shared memory.
template <class T, int n>
class Kept {
 public:
  __device__ Kept(uint4* memory, int room, int count)
      : own_(memory + threadIdx.x),
        count_(min(count, (room + together_threads - 1 - int(threadIdx.x)) / together_threads)) {}
  __device__ int count() const { return count_; }
  __device__ Vector<T, n> load(int k) const {
    return cuda::load<T, n>(reinterpret_cast<const T*>(at(k)));
  }
  __device__ void store(int k, const Vector<T, n>& value) const {
    memcpy(at(k), &value, sizeof(uint4));
  }
  // Begins to copy vector k, if it is kept; __pipeline_commit() ends a group of copies.
  __device__ void copy(int k, const T* from) const {
    if (k < count_) __pipeline_memcpy_async(at(k), from, sizeof(uint4));
  }

 private:
  __device__ uint4* at(int k) const { return own_ + k * together_threads; }

  uint4* own_;
  int count_;
};

inline constexpr int groups_ahead = 4;  // of copies, under way while one is summed

// copy(k) begins the copies of a group of vectors from k on. To be called before for_groups.
template <int group, class Copy>
__device__ void begin_groups(Copy copy) {
#pragma unroll 1
  for (int k = 0; k < groups_ahead * group; k += group) {
    copy(k);
    __pipeline_commit();
  }
}

// use(k) gets each group when it is there.
template <int group, class Copy, class Use>
__device__ void for_groups(int count, Copy copy, Use use) {
#pragma unroll 1
  for (int k = 0; k < count; k += group) {
    __pipeline_wait_prior(groups_ahead - 1);
    use(k);
    copy(k + groups_ahead * group);
    __pipeline_commit();
  }
}

// load(i, k) for up to `batch` vectors k of begin..end, i counting them, then use(i, k) for these.
template <int batch, class Load, class Use>
__device__ void in_batches(int begin, int end, Load load, Use use) {
#pragma unroll 1
  for (int k = begin; k < end; k += batch) {
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (k + i < end) load(i, k + i);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (k + i < end) use(i, k + i);
    }
  }
}

// -- barriers ------------------------------------------------------------------------------------

// Instructions of clusters, which launches for older devices never reach.
__device__ inline void begin_cluster() {  // tells no more than that the block runs
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ inline void arrive_at_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ inline void wait_for_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}
// To the same place in shared memory of another block.
__device__ inline void tell(Pair* place, unsigned block, const Pair& value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(remote)
      : "r"(unsigned(__cvta_generic_to_shared(place))), "r"(block));
  asm volatile("st.shared::cluster.v2.f64 [%0], {%1, %2};" ::"r"(remote), "d"(value.a), "d"(value.b)
               : "memory");
#endif
}

// Over a warp's rows: lane i has the sums of channel i / (32 / n) of its column's n. Each step
// halves the rows and the channels that a lane still has. Columns are at most 32 / n.
template <int n>
__device__ Pair sum_warp(Pair (&sums)[n], int width) {
  const unsigned lane = threadIdx.x % 32;
  int distance = 16;
#pragma unroll
  for (int half = n / 2; half > 0; half /= 2, distance /= 2) {
    const bool is_upper = lane & distance;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const Pair given = is_upper ? sums[k] : sums[k + half];
      if (is_upper) sums[k] = sums[k + half];
      sums[k].merge(shuffle_xor(given, distance));
    }
  }
  for (; distance >= width; distance /= 2) sums[0].merge(shuffle_xor(sums[0], distance));
  return sums[0];
}

// The sums over all rows: thread i < width * n gets that of the slice's channel i, the same bits in
// each block. `told` has a Pair for each block and channel of a slice: in shared memory for a
// cluster, which has begun, else in the workspace for all slices.
template <int n>
__device__ Pair sum_together(Pair (&sums)[n], const Share& share, Pair* told,
                             GridBarrier* barriers) {
  static_assert(together_width * n <= 32);
  __shared__ Pair scratch[together_threads];
  const int own = int(threadIdx.x), lane = own % 32, warps = together_threads / 32;
  const int channels = share.width * n, blocks = int(gridDim.x);
  const Pair of_warp = sum_warp<n>(sums, share.width);
  if (lane % (32 / n) < share.width) {
    scratch[own / 32 * channels + lane % (32 / n) * n + lane / (32 / n)] = of_warp;
  }
  __syncthreads();
  const Pair of_block = sum_shared(scratch, warps, channels);
  if (blocks == 1) return of_block;
  if (share.is_cluster) {
    wait_for_cluster();  // all blocks run
    if (own < channels) {
      for (int i = 0; i < blocks; ++i) tell(told + blockIdx.x * channels + own, i, of_block);
    }
    arrive_at_cluster();
    wait_for_cluster();
    return sum_shared(told, blocks, channels);
  }
  told += int64_t(blockIdx.y) * blocks * channels;
  if (own < channels) told[blockIdx.x * channels + own] = of_block;
  barriers[blockIdx.y].wait(gridDim.x, blockIdx.x == 0);
  const int teams = together_threads / channels;  // each sums some blocks' sums
  Pair mine{};
#pragma unroll 4
  for (int i = own / channels; i < blocks; i += teams) {
    mine.merge(told[i * channels + own % channels]);
  }
  scratch[own] = mine;
  __syncthreads();
  return sum_shared(scratch, teams, channels);
}

// -- calls ---------------------------------------------------------------------------------------

template <class... Parameters, class... Arguments>
void launch(const Context& context, void (*kernel)(Parameters...), const TogetherPlan& plan,
            Arguments&&... arguments) {
  const Grid grid{.blocks = dim3(plan.blocks, plan.slices),
                  .threads = together_threads,
                  .shared_bytes = plan.shared_bytes,
                  .cluster = plan.share.is_cluster ? plan.blocks : 1};
  ADRET_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   int(plan.shared_bytes)));
  if (plan.share.is_cluster) {
    launch(context, kernel, grid, std::forward<Arguments>(arguments)...);
  } else {
    launch_together(context, kernel, grid, std::forward<Arguments>(arguments)...);
  }
}

}  // namespace adret::cuda
