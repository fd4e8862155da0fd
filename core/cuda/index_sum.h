// What elements that indices bring together are added up in: integers as they are, floats wider.
#pragma once

#include <adret/core/cuda/elementwise.h>

#include <type_traits>

namespace adret::cuda {

template <class T>
__device__ inline Computed<T> wide_of(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return widen<T>(value);
  }
}
template <class T>
__device__ inline T narrow_of(Computed<T> value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return narrow<T>(value);
  }
}

}  // namespace adret::cuda
