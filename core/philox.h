// The rounds of Philox 4x32, for one block or for many side by side.
#pragma once

#include <cstdint>

namespace adret {

// Ten rounds (Salmon et al. 2011, section 4.3). A Word holds 32 bits of a block: a uint32_t, or the
// lower half of 64 bits, or a vector of such from many blocks; what upper halves hold means
// nothing. product(word, factor) multiplies the 32 bits to 64. (constexpr: nvcc compiles it for
// devices too.)
template <class Word, class Product>
constexpr void philox_rounds(Word (&words)[4], uint64_t key0, uint64_t key1, Product product) {
  for (int round = 0; round < 10; ++round) {
    const auto product0 = product(words[0], uint64_t(0xD2511F53));
    const auto product1 = product(words[2], uint64_t(0xCD9E8D57));
    words[0] = (product1 >> 32) ^ words[1] ^ key0;
    words[1] = product1;
    words[2] = (product0 >> 32) ^ words[3] ^ key1;
    words[3] = product0;
    key0 = uint32_t(key0 + 0x9E3779B9);
    key1 = uint32_t(key1 + 0xBB67AE85);
  }
}

}  // namespace adret
