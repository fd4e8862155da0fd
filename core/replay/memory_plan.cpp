// Greedy placement by size.
#include <adret/core/replay/memory_plan.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace adret {
namespace {

size_t rounded(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, size_t alignment) {
  MemoryPlan plan{.offsets = std::vector<size_t>(lifetimes.size())};
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t i) { return lifetimes[i].bytes; });
  std::vector<size_t> placed;  // by offset
  for (const size_t i : order) {
    const size_t bytes = rounded(lifetimes[i].bytes, alignment);
    size_t offset = 0;
    for (const size_t other : placed) {
      if (!meet(lifetimes[i], lifetimes[other])) continue;
      if (offset + bytes <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + rounded(lifetimes[other].bytes, alignment));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto by_offset = [&](size_t index) { return plan.offsets[index]; };
    placed.insert(std::ranges::upper_bound(placed, offset, {}, by_offset), i);
  }
  return plan;
}

size_t peak_bytes(std::span<const Lifetime> lifetimes, size_t alignment) {
  std::map<size_t, std::ptrdiff_t> changes;  // of what lives, by step
  for (const Lifetime& one : lifetimes) {
    const auto bytes = std::ptrdiff_t(rounded(one.bytes, alignment));
    changes[one.first] += bytes;
    changes[one.last + 1] -= bytes;
  }
  std::ptrdiff_t now = 0, peak = 0;
  for (const auto& [step, change] : changes) peak = std::max(peak, now += change);
  return size_t(peak);
}

}  // namespace adret
