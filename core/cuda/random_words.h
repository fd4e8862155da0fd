// The words of a call's random numbers on the device (Note [Random kernels]).
#pragma once

#include <adret/core/philox.h>
#include <adret/core/random.h>
#include <adret/core/tensor_view.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace adret::cuda {

// The sequence of words of one call (Note [Random kernels]).
struct WordSequence {
  // The step may be undefined when nothing is drawn.
  WordSequence(const RandomKey& random_key, const TensorView& step_word)
      : step(step_word.as<int64_t>()), call(random_key.call) {
    const auto words = philox_key(random_key);
    key[0] = words[0];
    key[1] = words[1];
  }

  // `count` words from `first` on, both multiples of 4.
  template <int count>
  __device__ void draw(int64_t first, uint32_t (&words)[count]) const {
    static_assert(count % 4 == 0);
    const uint32_t step_now = uint32_t(*step);
#pragma unroll
    for (int w = 0; w < count; w += 4) {
      const uint64_t block = uint64_t(first + w) / 4;
      uint32_t state[4] = {uint32_t(block), uint32_t(block >> 32), call, step_now};
      philox_rounds(state, key[0], key[1], [](uint32_t word, uint64_t factor) {
        return uint64_t(word) * uint32_t(factor);
      });
#pragma unroll
      for (int i = 0; i < 4; ++i) words[w + i] = state[i];
    }
  }

  const int64_t* step;
  uint32_t call;
  uint32_t key[2];
};

}  // namespace adret::cuda
