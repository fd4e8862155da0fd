// The account of a memory pool: how much is in use by which function.
#pragma once

#include <adret/core/memory_pool.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace adret {

// Who holds how much. Names are compared by their text, as a module's may be gone when another's
// takes its place in memory; a small cache finds most of them by their address first.
class Holders {
 public:
  uint32_t find(const CurrentFunction& holder) {
    if (!holder.name) return find({.name = "outside of functions"});
    Cached& cached = cache_[(reinterpret_cast<uintptr_t>(holder.name) >> 3) % cache_.size()];
    if (cached.name != holder.name || cached.backward != holder.backward ||
        std::strcmp(entries_[cached.index].function.c_str(), holder.name) != 0) {
      cached = {holder.name, holder.backward, find_text(holder)};
    }
    return cached.index;
  }

  void add(uint32_t index, size_t bytes) {
    entries_[index].bytes += bytes;
    ++entries_[index].blocks;
  }
  void subtract(uint32_t index, size_t bytes) {
    entries_[index].bytes -= bytes;
    --entries_[index].blocks;
  }

  std::vector<MemoryHolder> largest(size_t most) const {
    std::vector<MemoryHolder> list;
    for (const Entry& entry : entries_) {
      if (entry.blocks > 0) list.push_back({entry.text, entry.bytes, entry.blocks});
    }
    std::ranges::stable_sort(list, std::ranges::greater(), &MemoryHolder::bytes);
    if (list.size() > most) list.resize(most);
    return list;
  }

 private:
  static constexpr size_t most_names = 4096;

  struct Entry {
    std::string function, text;
    size_t bytes = 0;
    int64_t blocks = 0;
  };
  struct Cached {
    const char* name = nullptr;
    bool backward = false;
    uint32_t index = 0;
  };

  uint32_t find_text(const CurrentFunction& holder) {
    std::string text = holder.name;
    if (holder.backward) text += " backward";
    // Names that are made up as the program runs, as "step 123", must not fill the memory.
    if (entries_.size() >= most_names && !indices_.contains(text)) text = "others";
    const auto [place, is_new] = indices_.try_emplace(text, uint32_t(entries_.size()));
    if (is_new) entries_.push_back({.function = holder.name, .text = std::move(text)});
    return place->second;
  }

  std::array<Cached, 128> cache_{};
  std::deque<Entry> entries_;
  std::unordered_map<std::string, uint32_t> indices_;
};

}  // namespace adret
