// Sums that blocks left in memory, added up by one block in the order of the blocks.
#pragma once

#include <adret/core/cuda/launch.h>

namespace adret::cuda {

// done(i, sum over `count` arrays of `size` vectors), `at_once` vectors of each of `threads` and
// `ahead` arrays at a time.
template <int threads, int at_once, int ahead, class Done>
__device__ void add_vectors(const Vector<float, 4>* parts, int count, int size, Done&& done) {
  using Four = Vector<float, 4>;
  for (int first = int(threadIdx.x); first < size; first += at_once * threads) {
    Four sums[at_once] = {};
#pragma unroll 1
    for (int part = 0; part < count; part += ahead) {
      Four own[ahead][at_once] = {};
#pragma unroll
      for (int p = 0; p < ahead; ++p) {
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
          const int i = first + k * threads;
          if (part + p < count && i < size) own[p][k] = parts[(part + p) * size + i];
        }
      }
#pragma unroll
      for (int p = 0; p < ahead; ++p) {
#pragma unroll
        for (int k = 0; k < at_once; ++k) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[k].at[i] += own[p][k].at[i];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      if (first + k * threads < size) done(first + k * threads, sums[k]);
    }
  }
}

// The device waits for the block that does this: as many loads on their way as are worth it.
template <int threads, class Done>
__device__ void add_parts(const Vector<float, 4>* parts, int count, int size, Done&& done) {
  if (size <= threads) return add_vectors<threads, 1, 16>(parts, count, size, done);
  add_vectors<threads, 4, 4>(parts, count, size, done);
}

}  // namespace adret::cuda
