// Neighbouring elements of an array in a thread's registers.
#pragma once

#include <adret/core/cuda/launch.h>

namespace adret::cuda {

// `n` of T, moved as vectors of at most 16 bytes.
template <class T, int n>
struct Group {
  static constexpr int lanes = sizeof(T) * n <= 16 ? n : 16 / int(sizeof(T));

  __device__ T& operator[](int i) { return parts[i / lanes].at[i % lanes]; }

  // All of them if `whole` (aligned, and there), else the first `count`, one by one.
  __device__ void load(const T* from, int64_t count, bool whole) {
    if (whole) {
#pragma unroll
      for (int p = 0; p < n / lanes; ++p) {
        parts[p] = reinterpret_cast<const Vector<T, lanes>*>(from)[p];
      }
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) (*this)[i] = i < count ? from[i] : T(0);
    }
  }
  __device__ void store(T* to, int64_t count, bool whole) {
    if (whole) {
#pragma unroll
      for (int p = 0; p < n / lanes; ++p) {
        reinterpret_cast<Vector<T, lanes>*>(to)[p] = parts[p];
      }
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        if (i < count) to[i] = (*this)[i];
      }
    }
  }

  Vector<T, lanes> parts[n / lanes];
};

}  // namespace adret::cuda
