// Threads that read and reduce together: neighbours in a warp, a block, or a column of a block; and
// which block of a grid is done last.
#pragma once

#include <adret/core/cuda/launch.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace adret::cuda {

// What a team reduces consists of 4-byte words; its default changes nothing, and
// value.merge(other) takes in another one. Every thread of the team gets the result, which has the
// same bits in each run.
template <class A>
struct Total {
  A value = 0;
  __device__ void merge(const Total& other) { value += other.value; }
};

// f(word) for each word of a value.
template <class V, class F>
__device__ V for_words(const V& value, F f) {
  static_assert(sizeof(V) % 4 == 0);
  constexpr int count = sizeof(V) / 4;
  uint32_t words[count];
  memcpy(words, &value, sizeof(V));
#pragma unroll
  for (int i = 0; i < count; ++i) words[i] = f(words[i]);
  V other;
  memcpy(&other, words, sizeof(V));
  return other;
}

template <class V>
__device__ V shuffle_xor(const V& value, int distance) {
  return for_words(value, [=](uint32_t word) { return __shfl_xor_sync(~0u, word, distance); });
}
template <class V>
__device__ V shuffle_up(const V& value, int distance) {
  return for_words(value, [=](uint32_t word) { return __shfl_up_sync(~0u, word, distance); });
}

// `size` neighbours in a warp, a power of two. All threads of the warp must call reduce.
class Lanes {
 public:
  __device__ explicit Lanes(int size) : size_(size) {}
  __device__ int size() const { return size_; }
  __device__ int rank() const { return int(threadIdx.x) & (size_ - 1); }
  template <class V>
  __device__ V reduce(V value) const {
    for (int distance = size_ / 2; distance > 0; distance /= 2) {
      value.merge(shuffle_xor(value, distance));
    }
    return value;
  }

 private:
  int size_;
};

// A one-dimensional block of whole warps.
class Block {
 public:
  __device__ int size() const { return int(blockDim.x); }
  __device__ int rank() const { return int(threadIdx.x); }
  template <class V>
  __device__ V reduce(V value) const {
    alignas(V) __shared__ unsigned char storage[32 * sizeof(V)];
    V* const partial = reinterpret_cast<V*>(storage);  // of each warp
    const int lane = rank() % 32;
    value = Lanes(32).reduce(value);
    if (size() == 32) return value;
    if (lane == 0) partial[rank() / 32] = value;
    __syncthreads();
    value = lane < size() / 32 ? partial[lane] : V();
    __syncthreads();  // before the next reduction writes
    return Lanes(32).reduce(value);
  }
};

// The threads of a two-dimensional block with the same x; y counts a power of two, and the block
// has at most 1024 threads.
class Column {
 public:
  __device__ int size() const { return int(blockDim.y); }
  __device__ int rank() const { return int(threadIdx.y); }
  template <class V>
  __device__ V reduce(V value) const {
    if (size() == 1) return value;
    alignas(V) __shared__ unsigned char storage[1024 * sizeof(V)];
    V* const all = reinterpret_cast<V*>(storage);
    const int width = int(blockDim.x), at = rank() * width + int(threadIdx.x);
    all[at] = value;
    for (int half = size() / 2; half > 0; half /= 2) {
      __syncthreads();
      if (rank() < half) {
        value.merge(all[at + half * width]);
        all[at] = value;
      }
    }
    __syncthreads();
    value = all[threadIdx.x];
    __syncthreads();
    return value;
  }
};

// The elements i of a line lie at i * stride.
struct Line {
  int64_t length, stride;
};

// f(place, vectors) for the elements of a line that fall to a thread, n neighbours at a time, which
// only a stride of 1 has; `vectors` holds those of each of the arrays `from`. Several places are
// loaded before f sees the first.
template <int n, class T, int arrays, class Team, class F>
__device__ void for_vectors(const T* const (&from)[arrays], Line line, const Team& team, F f) {
  constexpr int batch = arrays == 1 ? 4 : 2;
  const int64_t step = int64_t(team.size()) * n;
  for (int64_t i = int64_t(team.rank()) * n; i < line.length; i += batch * step) {
    Vector<T, n> values[batch][arrays];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (i + b * step >= line.length) continue;
#pragma unroll
      for (int a = 0; a < arrays; ++a) {
        values[b][a] =
            *reinterpret_cast<const Vector<T, n>*>(from[a] + (i + b * step) * line.stride);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (i + b * step < line.length) f((i + b * step) * line.stride, values[b]);
    }
  }
}

// Whether this block is the last of `blocks` to call this with the same counter, which is zero
// before and after. The last one sees what the others wrote before the call. All threads call it;
// the answer is the same for all.
__device__ inline bool is_last_block(unsigned* counter, unsigned blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    is_last = atomicInc(counter, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

}  // namespace adret::cuda
