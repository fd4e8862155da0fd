// Products of whole warpgroups on Hopper's tensor cores. For files that are compiled for sm_90a.
#pragma once

#include <adret/core/cuda/tensor_core.h>
#include <adret/core/cuda/tile_copy.h>

#include <cstdint>
#include <type_traits>

namespace adret::cuda {

// -- matrices ------------------------------------------------------------------------------------

// The other way than load_matrices_transposed.
__device__ inline void store_matrices_transposed(uint32_t row, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// -- products of warpgroups ----------------------------------------------------------------------

// Note [Rows of 128 bytes]
// Operands in shared memory are rows of 64 elements of 16 bits, as copies with the swizzle of 128
// bytes leave them: the 16-byte piece p of a row lies at p ^ (address / 128 % 8). As that is by the
// address, an operand may begin at any row. Eight rows follow each other; the next eight are
// `step` bytes on.
// A descriptor's low word has the address and, where a second dimension of the operand leaves the
// 64 elements, that dimension's step; its high word the step from eight rows to the next.
__device__ inline uint32_t descriptor_low(uint32_t address, int leading_bytes) {
  return (address & 0x3FFFF) >> 4 | uint32_t(leading_bytes) >> 4 << 16;
}
__device__ inline uint32_t descriptor_high(int step_bytes) {
  return uint32_t(step_bytes) >> 4 | 1u << 30;
}

// Registers of products on their way are written before begin_products(), and read after
// wait_for_products() has left at most so many groups under way.
__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int most = 0>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(most) : "memory");
}
// Keeps the compiler from moving what it cannot know to be under way.
template <int n>
__device__ inline void pin(float (&sums)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#define ADRET_SUMS_8(d, i)                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define ADRET_SUMS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ADRET_SUMS_32(d, i) \
  ADRET_SUMS_8(d, i), ADRET_SUMS_8(d, i + 8), ADRET_SUMS_8(d, i + 16), ADRET_SUMS_8(d, i + 24)
#define ADRET_PLACES_32                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ADRET_PLACES_64                                                                     \
  ADRET_PLACES_32                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ADRET_PLACES_96                                                                     \
  ADRET_PLACES_64                                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

// sums (64, n) = a (64, 16) b (16, n), added to what they were if `adds`: a in registers as
// load_matrices gives it, b's columns being rows of 128 bytes. Warp w of the four has rows 16 w..;
// a lane l has of row l / 4 the columns 8 j + 2 (l % 4) and the next in sums[4 j] and [4 j + 1],
// and then those of row l / 4 + 8.
template <class T, int n>
__device__ inline void multiply(float (&sums)[n / 2], const uint32_t (&a)[4], uint32_t b_low,
                                uint32_t b_high, bool adds) {
  static_assert(n == 64 || n == 128);
#define ADRET_PRODUCT(types)                                                                    \
  if constexpr (n == 64) {                                                                      \
    asm volatile(                                                                               \
        "{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, %38, 0;\nmov.b64 b, {%36, %37};\n"      \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." types " {" ADRET_PLACES_32                \
        "}, {%32, %33, %34, %35}, b, p, 1, 1, 0;\n}"                                            \
        : ADRET_SUMS_32(sums, 0)                                                                \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high), "r"(int(adds))); \
  } else {                                                                                      \
    asm volatile(                                                                               \
        "{\n.reg .pred p;\n.reg .b64 b;\nsetp.ne.b32 p, %70, 0;\nmov.b64 b, {%68, %69};\n"      \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." types " {" ADRET_PLACES_64               \
        "}, {%64, %65, %66, %67}, b, p, 1, 1, 0;\n}"                                            \
        : ADRET_SUMS_32(sums, 0), ADRET_SUMS_32(sums, 32)                                       \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high), "r"(int(adds))); \
  }
  if constexpr (std::is_same_v<T, __half>) {
    ADRET_PRODUCT("f16.f16")
  } else {
    ADRET_PRODUCT("bf16.bf16")
  }
#undef ADRET_PRODUCT
}

// sums (64, n) += a^T (64, 16) b (16, n): both have the depth along their rows of 128 bytes, b
// blocks of 64 columns, one leading step from each other.
template <class T, int n>
__device__ inline void multiply_transposed(float (&sums)[n / 2], uint32_t a_low, uint32_t a_high,
                                           uint32_t b_low, uint32_t b_high) {
  static_assert(n == 192 || n == 200);
#define ADRET_PRODUCT(types)                                                                  \
  if constexpr (n == 192) {                                                                   \
    asm volatile(                                                                             \
        "{\n.reg .b64 a;\n.reg .b64 b;\nmov.b64 a, {%96, %97};\nmov.b64 b, {%98, %99};\n"     \
        "wgmma.mma_async.sync.aligned.m64n192k16.f32." types " {" ADRET_PLACES_96             \
        "}, a, b, 1, 1, 1, 1, 1;\n}"                                                          \
        : ADRET_SUMS_32(sums, 0), ADRET_SUMS_32(sums, 32), ADRET_SUMS_32(sums, 64)            \
        : "r"(a_low), "r"(a_high), "r"(b_low), "r"(b_high));                                  \
  } else {                                                                                    \
    asm volatile(                                                                             \
        "{\n.reg .b64 a;\n.reg .b64 b;\nmov.b64 a, {%100, %101};\nmov.b64 b, {%102, %103};\n" \
        "wgmma.mma_async.sync.aligned.m64n200k16.f32." types " {" ADRET_PLACES_96             \
        ", %96, %97, %98, %99}, a, b, 1, 1, 1, 1, 1;\n}"                                      \
        : ADRET_SUMS_32(sums, 0), ADRET_SUMS_32(sums, 32), ADRET_SUMS_32(sums, 64),           \
          ADRET_SUMS_4(sums, 96)                                                              \
        : "r"(a_low), "r"(a_high), "r"(b_low), "r"(b_high));                                  \
  }
  if constexpr (std::is_same_v<T, __half>) {
    ADRET_PRODUCT("f16.f16")
  } else {
    ADRET_PRODUCT("bf16.bf16")
  }
#undef ADRET_PRODUCT
}
#undef ADRET_SUMS_4
#undef ADRET_SUMS_8
#undef ADRET_SUMS_32
#undef ADRET_PLACES_32
#undef ADRET_PLACES_64
#undef ADRET_PLACES_96

// A warpgroup's registers a thread, of those that the block was launched with.
template <int count>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace adret::cuda
