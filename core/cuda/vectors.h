// Vectors of elements: from and to memory in one instruction, and as numbers.
#pragma once

#include <adret/core/cuda/launch.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace adret::cuda {

// From any memory. As one word: of 16-bit elements in shared memory the compiler makes eight loads.
template <class T, int n>
__device__ Vector<T, n> load(const T* data) {
  Vector<T, n> value;
  if constexpr (sizeof(value) == sizeof(uint4)) {
    const uint4 word = *reinterpret_cast<const uint4*>(data);
    memcpy(&value, &word, sizeof(value));
  } else {
    value = *reinterpret_cast<const Vector<T, n>*>(data);
  }
  return value;
}
// To global memory. The compiler would make four stores of a vector's.
template <class T, int n>
__device__ void store(T* data, const Vector<T, n>& value) {
  if constexpr (sizeof(value) == sizeof(uint4)) {
    uint4 word;
    memcpy(&word, &value, sizeof(value));
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(data), "r"(word.x), "r"(word.y),
                 "r"(word.z), "r"(word.w)
                 : "memory");
  } else {
    *reinterpret_cast<Vector<T, n>*>(data) = value;
  }
}

// A vector's elements as numbers and back, bf16 two at a time: one by one each half of a word would
// take a register.
template <class T, int n>
__device__ void widen(const Vector<T, n>& from, Accumulator<T> (&to)[n]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> && n % 2 == 0) {
    uint32_t words[n / 2];
    memcpy(words, &from, sizeof(from));
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) to[i] = widen<T>(from.at[i]);
  }
}
template <class T, int n>
__device__ Vector<T, n> narrow(const Accumulator<T> (&from)[n]) {
  Vector<T, n> to;
  if constexpr (std::is_same_v<T, __nv_bfloat16> && n % 2 == 0) {
    __nv_bfloat162 words[n / 2];
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      words[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
    }
    memcpy(&to, words, sizeof(to));
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) to.at[i] = narrow<T>(from[i]);
  }
  return to;
}

}  // namespace adret::cuda
