// The round function of Philox 4x32, for one block or for many side by side.
#pragma once

#include <cstdint>

namespace adret {

// Ten rounds on `lanes` blocks held word by word, all with the same key (Salmon et al. 2011,
// section 4.3). The loop over the lanes vectorises.
template <int lanes>
inline void philox_rounds(uint32_t (&words)[4][lanes], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < lanes; ++i) {
      const uint64_t product0 = uint64_t(0xD2511F53u) * words[0][i];
      const uint64_t product1 = uint64_t(0xCD9E8D57u) * words[2][i];
      words[0][i] = uint32_t(product1 >> 32) ^ words[1][i] ^ key0;
      words[1][i] = uint32_t(product1);
      words[2][i] = uint32_t(product0 >> 32) ^ words[3][i] ^ key1;
      words[3][i] = uint32_t(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

}  // namespace adret
