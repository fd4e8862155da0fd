// Barriers in device memory for blocks of one launch.
#pragma once

#include <cuda_runtime.h>

#include <cuda/atomic>

namespace adret::cuda {

// Where blocks that were launched together meet. Whichever way the highest bit points, it turns
// when all are there, and the other bits are zero again: ready for the next launch.
struct alignas(128) GridBarrier {
  unsigned arrived;

  // All threads of all blocks call it; what was written before is seen behind it.
  __device__ void wait(unsigned blocks, bool is_first) {
    __syncthreads();
    if (threadIdx.x == 0) {
      const ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> counter(arrived);
      const unsigned turn = 1u << 31;
      const unsigned before =
          counter.fetch_add(is_first ? turn - (blocks - 1) : 1u, ::cuda::memory_order_acq_rel);
      while (((counter.load(::cuda::memory_order_acquire) ^ before) & turn) == 0) {
      }
    }
    __syncthreads();
  }
};

}  // namespace adret::cuda
