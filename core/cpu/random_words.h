// The words of a call's random numbers (Note [Random kernels]), a vector of Philox blocks at a
// time.
#pragma once

#include <adret/core/cpu/vector.h>
#include <adret/core/philox.h>
#include <adret/core/random.h>
#include <adret/core/tensor_view.h>

#include <array>
#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace adret::cpu {

using Words = Vector<uint64_t>;  // a word each of as many blocks

inline constexpr int64_t blocks_at_once = lanes<uint64_t>;
inline constexpr int64_t words_at_once = 4 * blocks_at_once;

// The lower halves times `factor`: an instruction that GCC 12 does not find by itself.
inline Words word_product(Words words, uint64_t factor) {
#if defined(__AVX512F__)
  // The form with a mask (of all lanes): GCC 12 warns inside the plain one.
  return Words(_mm512_maskz_mul_epu32(0xff, __m512i(words), _mm512_set1_epi64(int64_t(factor))));
#elif defined(__AVX2__)
  return Words(_mm256_mul_epu32(__m256i(words), _mm256_set1_epi64x(int64_t(factor))));
#else
  return (words & 0xffffffff) * factor;
#endif
}

// The sequence of words of one call (Note [Random kernels]).
class WordSequence {
 public:
  WordSequence(const RandomKey& random_key, const TensorView& step)
      : key_(philox_key(random_key)),
        counter_(philox_counter(random_key, 0, *step.as<int64_t>())) {}

  // Words first..first + words_at_once - 1; `first` is a multiple of 4.
  void draw(int64_t first, uint32_t* words) const {
    Words block;
    for (int i = 0; i < blocks_at_once; ++i) block[i] = uint64_t(first / 4 + i);
    Words state[4] = {block, block >> 32, Words{} + counter_[2], Words{} + counter_[3]};
    philox_rounds(state, key_[0], key_[1], word_product);
    const Words low = (state[0] & 0xffffffff) | state[1] << 32;
    const Words high = (state[2] & 0xffffffff) | state[3] << 32;
    uint64_t pairs[2 * blocks_at_once];
    for (int64_t i = 0; i < blocks_at_once; ++i) {
      pairs[2 * i] = low[i];
      pairs[2 * i + 1] = high[i];
    }
    std::memcpy(words, pairs, sizeof pairs);  // the word of lower index in the lower half
  }

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;  // of block 0
};

}  // namespace adret::cpu
