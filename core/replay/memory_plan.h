// Where in one block of memory things of known size and lifetime lie.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace adret {

// From the step `first` to the step `last`, both included.
struct Lifetime {
  size_t bytes = 0, first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // one a lifetime, multiples of the alignment
  size_t bytes = 0;             // of the block
};

// Lifetimes that meet get places that do not. The largest are placed first, each at the lowest
// place that is free all its life (Pisarchyk and Lee 2020, "Efficient memory management for deep
// neural net inference", greedy by size); `bytes` is at least, and mostly, the largest sum that
// lives at once.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, size_t alignment);

// The largest sum of bytes that live at once, each rounded up to the alignment: what no plan can go
// below.
size_t peak_bytes(std::span<const Lifetime> lifetimes, size_t alignment);

}  // namespace adret
