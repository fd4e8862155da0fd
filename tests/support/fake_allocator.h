// A raw allocator over host memory with a budget, which counts its calls and checks its frees.
#pragma once

#include <adret/core/memory_pool.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

namespace adret::test {

class FakeAllocator final : public RawAllocator {
 public:
  static constexpr size_t alignment = 512;

  explicit FakeAllocator(size_t budget = size_t(1) << 40) : budget_(budget) {}
  ~FakeAllocator() override {
    for (const auto& [data, bytes] : held_) std::free(data);
  }

  void* allocate(size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    ++allocate_calls;
    if (bytes > budget_ - bytes_held()) return nullptr;
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data) held_[data] = bytes;
    return data;
  }

  void deallocate(void* data, size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(data);
    if (found == held_.end() || found->second != bytes) {
      ++bad_frees;
      return;
    }
    std::free(data);
    held_.erase(found);
  }

  std::optional<size_t> free_bytes() noexcept override {
    const std::lock_guard lock(mutex_);
    return budget_ - bytes_held();
  }

  size_t bytes_held() const {
    size_t sum = 0;
    for (const auto& [data, bytes] : held_) sum += bytes;
    return sum;
  }

  int allocate_calls = 0;
  int bad_frees = 0;  // frees of what was not given, or with another size

 private:
  const size_t budget_;
  std::mutex mutex_;  // pools over one raw allocator call it at the same time
  std::map<void*, size_t> held_;
};

}  // namespace adret::test
