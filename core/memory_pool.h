// A caching allocator with splitting and coalescing over an injected raw allocator; the same
// design for host and device memory.
#pragma once

#include <adret/core/scope.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adret {

// Where a pool gets its memory: malloc, cudaMalloc, or a fake with a budget in tests. Pools may
// share one, so it is thread-safe.
class RawAllocator {
 public:
  virtual ~RawAllocator() = default;
  // At least `bytes` bytes aligned for the pool, or null when there are none. Never throws.
  virtual void* allocate(size_t bytes) noexcept = 0;
  virtual void deallocate(void* data, size_t bytes) noexcept = 0;
  // What could still be had, for reports; nothing where it cannot be told.
  virtual std::optional<size_t> free_bytes() noexcept { return std::nullopt; }
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

// What the blocks in use of one function (or of a module, outside of functions) come to.
struct MemoryHolder {
  std::string name;  // "conv2d", "conv2d backward", "fit/lenet"
  size_t bytes = 0;
  int64_t blocks = 0;
};

struct MemoryPoolOptions {
  size_t alignment = 64;  // every pointer and size is a multiple of it; a power of two from 8 on
  // Each allocation is one of the raw allocator's, of just its bytes, and is freed at once: for
  // tools that look for accesses out of bounds, which a cache hides. The raw allocator aligns.
  bool pass_through = false;
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

  // `name` appears in errors; `raw` must outlive the pool and its blocks. Throws Error for a bad
  // alignment.
  MemoryPool(std::string name, RawAllocator& raw, MemoryPoolOptions options = {});
  // Returns the cached segments. Blocks in use stay valid; the last one that comes back takes the
  // rest along.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // An empty pool over the same raw allocator that shares no memory with this one. It keeps its
  // cache, also when others run out and with `pass_through`, until it goes or is told to free it:
  // for what uses addresses again that it gave back, as a captured step. When it runs out itself,
  // this one frees its cache.
  std::unique_ptr<MemoryPool> make_private(std::string name) const;

  // Zero bytes give a null pointer and no block. When the raw allocator fails, frees the caches of
  // this pool and its relatives, but private ones, and retries once, with a segment that just fits;
  // then throws OutOfMemory saying what was asked, free, held and cached, and who holds most.
  Allocation allocate(size_t bytes, const CurrentFunction& holder = {});
  // To the pool that it came from.
  static void deallocate(Allocation allocation) noexcept;

  // Returns every cached segment without a block in use to the raw allocator; bytes returned.
  size_t free_cache() noexcept;

  MemoryStats stats() const;
  // Those that hold most, the largest first.
  std::vector<MemoryHolder> holders(size_t most = 10) const;
  void reset_peak();

 private:
  struct Impl;
  struct Relatives;  // the pools over one raw allocator
  explicit MemoryPool(std::unique_ptr<Impl> impl);

  Impl* impl_;  // lives on while blocks are in use
};

}  // namespace adret
