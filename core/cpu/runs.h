// Consecutive elements moved as one.
#pragma once

#include <adret/core/cpu/vector.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace adret::cpu {

// Copies bytes that do not overlap. Short runs, as the channels of a pixel, take less than a call
// of memcpy does.
inline void copy_run(const void* from, void* to, size_t bytes) {
  constexpr size_t piece = vector_bytes;
  if (bytes > 16 * piece) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto* const x = static_cast<const uint8_t*>(from);
  auto* const y = static_cast<uint8_t*>(to);
  if (bytes < piece) return copy_pieces<uint8_t, vector_bytes / 2>(x, y, int64_t(bytes));
  for (size_t i = 0; i + piece <= bytes; i += piece) store(y + i, load(x + i));
  // The rest, with what stands before it.
  if (bytes % piece) store(y + bytes - piece, load(x + bytes - piece));
}

}  // namespace adret::cpu
