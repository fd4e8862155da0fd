// Copies of tiles between memory and shared memory, and the barriers that tell when they are there.
// For files that are compiled for sm_90 or later. Addresses are those of shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace adret::cuda {

__device__ inline uint32_t shared_address(const void* p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

// -- barriers ------------------------------------------------------------------------------------

__device__ inline void barrier_init(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// After the last of them, by the thread that made them: copies see them, too.
__device__ inline void barriers_made() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and lets copies of so many bytes be waited for.
__device__ inline void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Until the phase of this parity is over.
__device__ inline void barrier_wait(uint32_t barrier, int parity) {
  int done;
  do {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
}
// Some threads of the block: barrier 0 is __syncthreads'.
__device__ inline void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// -- copies of tiles -----------------------------------------------------------------------------

// A tile of a tensor map, its corner given innermost first; what is outside the tensor is zero. The
// barrier expects its bytes.
__device__ inline void load_tile(uint32_t to, const CUtensorMap* map, uint32_t barrier, int i,
                                 int j, int k, int l) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(i), "r"(j), "r"(k), "r"(l)
      : "memory");
}
__device__ inline void load_tile(uint32_t to, const CUtensorMap* map, uint32_t barrier, int i,
                                 int j, int k) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(i), "r"(j), "r"(k)
      : "memory");
}
// The other way; what is outside is left out.
__device__ inline void store_tile(const CUtensorMap* map, uint32_t from, int i, int j, int k,
                                  int l) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
          map),
      "r"(from), "r"(i), "r"(j), "r"(k), "r"(l)
      : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until the thread's stores have read shared memory, or have written.
__device__ inline void wait_for_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// What threads wrote to shared memory is seen by copies and products that begin later.
__device__ inline void show_shared_memory() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Stages of shared memory that tiles go round.
struct PipelineState {
  int stage = 0, phase = 0;
  __device__ void advance(int stages) {
    if (++stage < stages) return;
    stage = 0;
    phase ^= 1;
  }
};

}  // namespace adret::cuda
