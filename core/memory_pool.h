// A caching allocator with splitting and coalescing over an injected raw allocator; the same
// design for host and device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace adret {

// Where a pool gets its memory: malloc, cudaMalloc, or a fake with a budget in tests.
class RawAllocator {
 public:
  virtual ~RawAllocator() = default;
  // At least `bytes` bytes aligned for the pool, or null when there are none. Never throws.
  virtual void* allocate(size_t bytes) noexcept = 0;
  virtual void deallocate(void* data, size_t bytes) noexcept = 0;
};

// Bytes unless named otherwise.
struct MemoryStats {
  size_t current = 0;       // in use by callers (after rounding)
  size_t peak = 0;          // largest `current` since the last reset
  size_t reserved = 0;      // held from the raw allocator: in use + cached
  size_t cached = 0;        // reserved and not in use
  int64_t allocations = 0;  // calls of allocate
  int64_t misses = 0;       // calls that had to ask the raw allocator
  int64_t retries = 0;      // raw failures answered by freeing the cache
  int64_t failures = 0;     // OutOfMemory thrown
};

struct MemoryPoolOptions {
  size_t alignment = 64;  // every pointer and size is a multiple of it; a power of two from 8 on
  // In an AddressSanitizer build, a touch of a free block is reported. For host memory only.
  bool poison_free = false;
};

// Thread-safe.
class MemoryPool {
 public:
  struct Block;  // one piece of a segment; opaque to callers
  struct Allocation {
    void* data = nullptr;
    Block* block = nullptr;
  };

  // `name` appears in errors; `raw` must outlive the pool. Throws Error for a bad alignment.
  MemoryPool(std::string name, RawAllocator& raw, MemoryPoolOptions options = {});
  // Returns the cached segments; those with a block in use are left to their users.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Zero bytes give a null pointer and no block. When the raw allocator fails, frees the cache and
  // retries once, with a segment that just fits; then throws OutOfMemory saying what was asked,
  // held and cached.
  Allocation allocate(size_t bytes);
  void deallocate(Allocation allocation) noexcept;

  // Returns every cached segment without a block in use to the raw allocator; bytes returned.
  size_t free_cache() noexcept;

  MemoryStats stats() const;
  void reset_peak();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adret
