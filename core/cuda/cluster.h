// Blocks of a cluster, which see each other's shared memory; from sm_90 on.
#pragma once

#include <cuda_runtime.h>

namespace adret::cuda {

// All threads of all the cluster's blocks have arrived before one goes on from wait(), and what
// they wrote before is seen then. Without clusters there is nothing to wait for.
__device__ inline void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
__device__ inline void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Writes to where `to`, in this block's shared memory, lies in that of the cluster's block `rank`.
__device__ inline void store_in_block(float* to, int rank, float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(unsigned(__cvta_generic_to_shared(to))), "r"(rank));
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
#endif
}

}  // namespace adret::cuda
