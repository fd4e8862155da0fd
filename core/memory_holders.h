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
  struct Holder {
    std::string function, text;
    size_t bytes = 0;
    int64_t blocks = 0;

    void add(size_t size) {
      bytes += size;
      ++blocks;
    }
    void subtract(size_t size) {
      bytes -= size;
      --blocks;
    }
  };

  // Stays where it is.
  Holder* find(const CurrentFunction& name) {
    if (!name.name) return find({.name = "outside of functions"});
    Cached& cached = cache_[(reinterpret_cast<uintptr_t>(name.name) >> 3) % cache_.size()];
    if (cached.name != name.name || cached.backward != name.backward ||
        std::strcmp(cached.holder->function.c_str(), name.name) != 0) {
      cached = {name.name, name.backward, find_text(name)};
    }
    return cached.holder;
  }

  std::vector<MemoryHolder> largest(size_t most) const {
    std::vector<MemoryHolder> list;
    for (const Holder& holder : holders_) {
      if (holder.blocks > 0) list.push_back({holder.text, holder.bytes, holder.blocks});
    }
    std::ranges::stable_sort(list, std::ranges::greater(), &MemoryHolder::bytes);
    if (list.size() > most) list.resize(most);
    return list;
  }

 private:
  static constexpr size_t most_names = 4096;

  struct Cached {
    const char* name = nullptr;
    bool backward = false;
    Holder* holder = nullptr;
  };

  Holder* find_text(const CurrentFunction& name) {
    std::string text = name.name;
    if (name.backward) text += " backward";
    // Names that are made up as the program runs, as "step 123", must not fill the memory.
    if (holders_.size() >= most_names && !by_text_.contains(text)) text = "others";
    if (const auto known = by_text_.find(text); known != by_text_.end()) return known->second;
    holders_.push_back({.function = name.name, .text = text});
    return by_text_.emplace(std::move(text), &holders_.back()).first->second;
  }

  std::array<Cached, 128> cache_{};
  std::deque<Holder> holders_;
  std::unordered_map<std::string, Holder*> by_text_;
};

}  // namespace adret
