// Tensor cores and what feeds them: asynchronous copies, fragments, products. From sm_80 on.
#pragma once

#include <adret/core/cuda/launch.h>

#include <type_traits>

namespace adret::cuda {

// -- copies --------------------------------------------------------------------------------------

// Copies `bytes`, 4, 8 or 16, to shared memory; writes zeros unless `inside`, and does not read
// then. Both addresses are multiples of `bytes`.
template <int bytes>
__device__ inline void copy_async(void* to, const void* from, bool inside) {
  const auto address = unsigned(__cvta_generic_to_shared(to));
  const int count = inside ? bytes : 0;
  if constexpr (bytes == 16) {  // past the L1 cache: nobody else on the multiprocessor wants them
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(count)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(bytes), "r"(count)
                 : "memory");
  }
}

// Ends a group of the thread's copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for the thread's groups but the latest `most`.
template <int most>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(most) : "memory");
}

// -- fragments -----------------------------------------------------------------------------------

// Four 8 x 8 matrices of 16 bits in shared memory; lane l gives the address there of row l % 8 of
// matrix l / 8, 16 bytes. A lane gets elements 2 (l % 4) and its neighbour of row l / 4 of each.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The same of the matrices transposed.
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

// The same by pointers.
__device__ inline void load_matrices(uint32_t (&to)[4], const void* row) {
  load_matrices(to, uint32_t(__cvta_generic_to_shared(row)));
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const void* row) {
  load_matrices_transposed(to, uint32_t(__cvta_generic_to_shared(row)));
}

// Two numbers rounded to 16-bit neighbours, as fragments hold them.
template <class T>
__device__ inline uint32_t pack(float low, float high) {
  std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162> both;
  if constexpr (std::is_same_v<T, __half>) {
    both = __floats2half2_rn(low, high);
  } else {
    both = __floats2bfloat162_rn(low, high);
  }
  return reinterpret_cast<const uint32_t&>(both);
}

// The bits of an f32, rounded to TF32's 10 bits of mantissa: to nearest, as the tensor cores
// themselves would truncate.
__device__ inline uint32_t round_to_tf32(uint32_t bits) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}

// -- products ------------------------------------------------------------------------------------

// sums (16, 8) += a (16, n) b (n, 8), n being 32 bytes of T: TF32 for float. A lane l has sums of
// row l / 4 at columns 2 (l % 4) and the next, then those of row l / 4 + 8.
template <class T>
__device__ inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
#define ADRET_MMA(shape_and_types)                                       \
  asm("mma.sync.aligned." shape_and_types                                \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])       \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (std::is_same_v<T, float>) {
    ADRET_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    ADRET_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  } else {
    static_assert(std::is_same_v<T, __half>);
    ADRET_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  }
#undef ADRET_MMA
}

}  // namespace adret::cuda
