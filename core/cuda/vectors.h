// Vectors of elements from and to memory in one instruction.
#pragma once

#include <adret/core/cuda/launch.h>

#include <cstring>

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

}  // namespace adret::cuda
