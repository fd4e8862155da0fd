// How many multiprocessors the current device has.
#pragma once

#include <adret/core/cuda/check.h>

namespace adret::cuda {

// For kernels that have no Context.
inline int multiprocessors() {
  int device = 0, count = 0;
  ADRET_CHECK(cudaGetDevice(&device));
  ADRET_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

}  // namespace adret::cuda
