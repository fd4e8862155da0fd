// Elements of formulas' operands as CUDA kernels load them, several at once.
#pragma once

#include <adret/core/formula/number.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

namespace adret::formula {
inline namespace ADRET_FORMULA_COMPILER {

// What a thread loads at once.
template <class Word>
struct alignas(16) Vector {
  static constexpr int n = 16 / int(sizeof(Word));
  Word at[n];
};

// The elements from a place on, or the one there repeated.
template <class Word>
__device__ Vector<Word> load_vector(const Word* from, bool repeats) {
  if (!repeats) return *reinterpret_cast<const Vector<Word>*>(from);
  Vector<Word> vector;
#pragma unroll
  for (Word& word : vector.at) word = *from;
  return vector;
}

// Vectors: neighbours of 16 bits two at a time, which takes fewer instructions, and with one branch
// for all elements.
template <class Word, int n>
__device__ void widen(const Vector<Word>& words, bool is_bf16, float (&values)[n]) {
  if constexpr (sizeof(Word) == 4) {
#pragma unroll
    for (int k = 0; k < n; ++k) values[k] = words.at[k];
  } else {
    uint32_t pairs[n / 2];
    memcpy(pairs, &words, sizeof(words));
    const auto each = [&](auto widened) {
#pragma unroll
      for (int k = 0; k < n; k += 2) {
        const float2 pair = widened(pairs[k / 2]);
        values[k] = pair.x;
        values[k + 1] = pair.y;
      }
    };
    if (is_bf16) {
      each([](uint32_t pair) {
        return float2{__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
      });
    } else {
      each([](uint32_t pair) { return __half22float2(reinterpret_cast<const __half2&>(pair)); });
    }
  }
}
template <class Word, int n>
__device__ Vector<Word> narrow(const float (&values)[n], bool is_bf16) {
  Vector<Word> words;
  if constexpr (sizeof(Word) == 4) {
#pragma unroll
    for (int k = 0; k < n; ++k) words.at[k] = values[k];
  } else {
    uint32_t pairs[n / 2];
    const auto each = [&](auto narrowed) {
#pragma unroll
      for (int k = 0; k < n; k += 2) {
        const auto pair = narrowed(values[k], values[k + 1]);
        memcpy(&pairs[k / 2], &pair, sizeof(pair));
      }
    };
    if (is_bf16) {
      each([](float low, float high) { return __floats2bfloat162_rn(low, high); });
    } else {
      each([](float low, float high) { return __floats2half2_rn(low, high); });
    }
    memcpy(&words, pairs, sizeof(words));
  }
  return words;
}

}  // namespace ADRET_FORMULA_COMPILER
}  // namespace adret::formula
