// Consecutive elements moved as one.
#pragma once

#include <adret/core/cpu/vector.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace adret::cpu {

// Copies bytes that do not overlap. Short runs, as the channels of a pixel, take less than a call
// of memcpy does.
[[gnu::always_inline]] inline void copy_run(const void* from, void* to, size_t bytes) {
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

// Copies `count` runs at steps, in bytes, of their own. Inlined here, a run does without the
// reloads that follow a store through a pointer to bytes.
inline void copy_runs(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
                      int64_t count, size_t bytes) {
  for (int64_t i = 0; i < count; ++i) copy_run(from + i * from_step, to + i * to_step, bytes);
}

}  // namespace adret::cpu
