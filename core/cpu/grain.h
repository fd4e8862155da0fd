// How long the chunks of parallel loops are.
#pragma once

#include <algorithm>
#include <cstdint>

namespace adret::cpu {

// Elements of a chunk, so that starting a second thread pays: for loops bound by memory, and for
// those with some tens of operations an element.
inline constexpr int64_t memory_grain = 16384;
inline constexpr int64_t math_grain = 4096;

// Items of `item_elements` elements (or operations) that make up a chunk, one at least.
constexpr int64_t items_per_chunk(int64_t chunk_elements, int64_t item_elements) {
  return std::max<int64_t>(1, chunk_elements / std::max<int64_t>(1, item_elements));
}

}  // namespace adret::cpu
