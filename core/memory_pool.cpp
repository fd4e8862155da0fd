// The caching allocator: segments from the raw allocator, split into blocks and joined again.
#include <adret/core/error.h>
#include <adret/core/memory_holders.h>
#include <adret/core/memory_pool.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define ADRET_POISON(data, bytes) ASAN_POISON_MEMORY_REGION(data, bytes)
#define ADRET_UNPOISON(data, bytes) ASAN_UNPOISON_MEMORY_REGION(data, bytes)
#else
#define ADRET_POISON(data, bytes) (void(data), void(bytes))
#define ADRET_UNPOISON(data, bytes) (void(data), void(bytes))
#endif

namespace adret {

// Note [Memory pool]
// Requests of up to 1 MiB are cut from segments of 2 MiB, larger ones from segments of their own
// arena, so that small tensors do not chop up the large pieces. Every byte of a segment belongs to
// one block, in use or free; a freed block is joined with free neighbours at once. Free blocks hang
// in bins by size, eight to a power of two, and a bitmap finds the next bin that is not empty. The
// blocks' records are host objects: the memory itself, which may be a device's, is never touched.
struct MemoryPool::Block {
  std::byte* data = nullptr;
  size_t size = 0;
  Block* before = nullptr;  // neighbours by address, within the segment
  Block* after = nullptr;
  Block* previous = nullptr;  // neighbours in the bin
  Block* next = nullptr;
  Impl* pool = nullptr;
  Holders::Holder* holder = nullptr;  // while in use
  bool in_use = false;
  bool small = false;

  bool is_whole_segment() const { return !before && !after; }
};

namespace {

using Block = MemoryPool::Block;

constexpr size_t mib = size_t(1) << 20;
constexpr size_t small_limit = mib;  // largest request of the small arena
constexpr size_t small_segment = 2 * mib;
constexpr size_t medium_limit = 10 * mib;  // largest request that shares a segment by plan
constexpr size_t medium_segment = 20 * mib;

constexpr size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// Segments above 20 MiB come in eighths of a power of two, so that requests of many sizes make few
// sizes of segments and memory stays bounded.
size_t segment_size(size_t size) {
  if (size <= small_limit) return small_segment;
  if (size <= medium_limit) return medium_segment;
  return round_up(size, std::max(small_segment, std::bit_floor(size) / 8));
}

// The free blocks of one arena.
class Bins {
 public:
  void insert(Block* block) {
    const size_t bin = bin_of(block->size);
    block->previous = nullptr;
    block->next = heads_[bin];
    if (block->next) block->next->previous = block;
    heads_[bin] = block;
    occupied_[bin / 64] |= uint64_t(1) << (bin % 64);
  }

  void remove(Block* block) {
    const size_t bin = bin_of(block->size);
    if (block->next) block->next->previous = block->previous;
    if (block->previous) {
      block->previous->next = block->next;
    } else if (!(heads_[bin] = block->next)) {
      occupied_[bin / 64] &= ~(uint64_t(1) << (bin % 64));
    }
  }

  // A free block of at least `size` bytes, close to the smallest; null when there is none.
  Block* find(size_t size) const {
    const size_t bin = bin_of(size);
    if (Block* block = best_in(bin, size, 16)) return block;
    const size_t larger = next_occupied(bin + 1);  // any block there fits
    if (larger < bin_count) return heads_[larger];
    return best_in(bin, size, std::numeric_limits<int>::max());
  }

  template <class F>
  void for_each(F&& f) const {
    for (size_t bin = next_occupied(0); bin < bin_count; bin = next_occupied(bin + 1)) {
      for (Block* block = heads_[bin]; block;) f(std::exchange(block, block->next));
    }
  }

 private:
  static constexpr size_t bin_count = 512;

  static size_t bin_of(size_t size) {
    const size_t exponent = size_t(std::bit_width(size)) - 1;  // at least 3: sizes are aligned
    return exponent * 8 + ((size >> (exponent - 3)) & 7);
  }

  // The smallest fitting block among the first `limit` of a bin, or the first of just this size.
  Block* best_in(size_t bin, size_t size, int limit) const {
    Block* best = nullptr;
    for (Block* block = heads_[bin]; block && limit > 0; block = block->next, --limit) {
      if (block->size == size) return block;
      if (block->size > size && (!best || block->size < best->size)) best = block;
    }
    return best;
  }

  size_t next_occupied(size_t bin) const {
    if (bin >= bin_count) return bin_count;
    size_t word = bin / 64;
    uint64_t bits = occupied_[word] & (~uint64_t(0) << (bin % 64));
    while (!bits) {
      if (++word == occupied_.size()) return bin_count;
      bits = occupied_[word];
    }
    return word * 64 + size_t(std::countr_zero(bits));
  }

  std::array<Block*, bin_count> heads_{};
  std::array<uint64_t, bin_count / 64> occupied_{};
};

std::string in_units(size_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = double(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.2f} {}", value, unit);
}

}  // namespace

struct MemoryPool::Relatives {
  std::mutex mutex;  // taken before a pool's own
  std::vector<Impl*> pools;

  void free_caches();
  size_t reserved();
};

struct MemoryPool::Impl {
  const std::string name;
  RawAllocator& raw;
  const MemoryPoolOptions options;
  const std::shared_ptr<Relatives> relatives;
  const bool is_private = false;
  mutable std::mutex mutex;
  Bins small, large;
  std::deque<Block> records;  // owns every Block; they are reused, never erased
  Block* spare = nullptr;     // records without memory, linked by `next`
  MemoryStats stats;
  Holders holders;
  size_t blocks_in_use = 0;
  bool orphaned = false;  // its MemoryPool is gone

  Bins& bins(const Block* block) { return block->small ? small : large; }

  Block* new_record() {
    if (spare) {
      Block* block = std::exchange(spare, spare->next);
      *block = Block();
      return block;
    }
    return &records.emplace_back();
  }

  void retire(Block* block) {
    block->next = spare;
    spare = block;
  }

  // A free block (not in a bin) over a new piece of raw memory, or null.
  Block* grow(size_t bytes, bool is_small) {
    auto* data = static_cast<std::byte*>(raw.allocate(bytes));
    if (!data) return nullptr;
    Block* block = new_record();
    block->pool = this;
    block->small = is_small;
    block->size = bytes;
    block->data = data;
    if (options.poison_free) ADRET_POISON(block->data, block->size);
    stats.reserved += block->size;
    stats.cached += block->size;
    return block;
  }

  // A free block (not in a bin) for a request, with what it leaves over cut off, or null. When
  // memory is short a new segment just fits.
  Block* take(size_t bytes, bool is_short) {
    if (options.pass_through) {
      stats.misses += !is_short;
      return grow(bytes, false);
    }
    const size_t size = round_up(bytes, options.alignment);
    const bool is_small = size <= small_limit;
    Bins& arena = is_small ? small : large;
    Block* block = arena.find(size);
    if (block) {
      arena.remove(block);
    } else {
      stats.misses += !is_short;
      block = grow(is_short ? size : segment_size(size), is_small);
    }
    if (block) split(block, size);
    return block;
  }

  void give_back(Block* block) {
    if (options.poison_free) ADRET_POISON(block->data, block->size);
    block->holder->subtract(block->size);
    stats.current -= block->size;
    stats.cached += block->size;
    --blocks_in_use;
    block->in_use = false;
    if (options.pass_through) return release(block);
    Bins& arena = bins(block);
    if (block->after && !block->after->in_use) {
      arena.remove(block->after);
      join(block);
    }
    if (block->before && !block->before->in_use) {
      block = block->before;
      arena.remove(block);
      join(block);
    }
    arena.insert(block);
  }

  // Cuts what a request of `size` bytes leaves over into a free block, if it is of use.
  void split(Block* block, size_t size) {
    const size_t rest = block->size - size;
    if (rest == 0 || (!block->small && rest <= small_limit)) return;
    Block* tail = new_record();
    tail->data = block->data + size;
    tail->size = rest;
    tail->pool = this;
    tail->small = block->small;
    tail->before = block;
    tail->after = block->after;
    if (tail->after) tail->after->before = tail;
    block->after = tail;
    block->size = size;
    bins(tail).insert(tail);
  }

  // Joins a block with its right neighbour; neither is in a bin.
  void join(Block* block) {
    Block* tail = block->after;
    block->size += tail->size;
    block->after = tail->after;
    if (block->after) block->after->before = block;
    retire(tail);
  }

  // Returns a free block that is a whole segment, and in no bin, to the raw allocator.
  void release(Block* block) {
    if (options.poison_free) ADRET_UNPOISON(block->data, block->size);
    raw.deallocate(block->data, block->size);
    stats.reserved -= block->size;
    stats.cached -= block->size;
    retire(block);
  }

  size_t free_cache() {
    const size_t before = stats.reserved;
    for (Bins* arena : {&small, &large}) {
      arena->for_each([&](Block* block) {
        if (!block->is_whole_segment()) return;
        arena->remove(block);
        release(block);
      });
    }
    return before - stats.reserved;
  }

  // Unlocks first.
  [[noreturn]] void fail(size_t bytes, std::unique_lock<std::mutex>& lock) {
    ++stats.failures;
    std::string text = fmt::format(
        "[memory] {} has no room for {} ({} bytes), also after freeing "
        "its cache: ",
        name, in_units(bytes), bytes);
    if (const auto free = raw.free_bytes()) text += fmt::format("{} free, ", in_units(*free));
    text += fmt::format("{} in use, {} cached in pieces, {} reserved", in_units(stats.current),
                        in_units(stats.cached), in_units(stats.reserved));
    std::string most;
    for (const MemoryHolder& holder : holders.largest(10)) {
      most += fmt::format("{}{} {} in {}", most.empty() ? "" : ", ", holder.name,
                          in_units(holder.bytes), holder.blocks);
    }
    const size_t mine = stats.reserved;
    lock.unlock();
    const size_t all = relatives->reserved();
    if (all > mine)
      text += fmt::format(", {} reserved by the device's other pools", in_units(all - mine));
    if (!most.empty()) text += "; most is held by " + most;
    throw OutOfMemory(text + "; use a smaller batch or model, or free tensors");
  }
};

void MemoryPool::Relatives::free_caches() {
  const std::lock_guard lock(mutex);
  for (Impl* pool : pools) {
    if (pool->is_private) continue;
    const std::lock_guard pool_lock(pool->mutex);
    pool->free_cache();
  }
}

size_t MemoryPool::Relatives::reserved() {
  const std::lock_guard lock(mutex);
  size_t sum = 0;
  for (const Impl* pool : pools) {
    const std::lock_guard pool_lock(pool->mutex);
    sum += pool->stats.reserved;
  }
  return sum;
}

MemoryPool::MemoryPool(std::string name, RawAllocator& raw, MemoryPoolOptions options)
    : MemoryPool(std::unique_ptr<Impl>(new Impl{.name = std::move(name),
                                                .raw = raw,
                                                .options = options,
                                                .relatives = std::make_shared<Relatives>()})) {}

MemoryPool::MemoryPool(std::unique_ptr<Impl> impl) {
  const size_t alignment = impl->options.alignment;
  if (!std::has_single_bit(alignment) || alignment < 8) {
    throw Error(
        fmt::format("[memory] {}: an alignment is a power of two from 8 on, "
                    "not {}",
                    impl->name, alignment));
  }
  const std::lock_guard lock(impl->relatives->mutex);
  impl->relatives->pools.push_back(impl.get());
  impl_ = impl.release();
}

MemoryPool::~MemoryPool() {
  {
    const std::lock_guard lock(impl_->relatives->mutex);
    std::erase(impl_->relatives->pools, impl_);
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->free_cache();
    impl_->orphaned = impl_->blocks_in_use > 0;
    if (impl_->orphaned) return;
  }
  delete impl_;
}

std::unique_ptr<MemoryPool> MemoryPool::make_private(std::string name) const {
  MemoryPoolOptions options = impl_->options;
  options.pass_through = false;
  return std::unique_ptr<MemoryPool>(
      new MemoryPool(std::unique_ptr<Impl>(new Impl{.name = std::move(name),
                                                    .raw = impl_->raw,
                                                    .options = options,
                                                    .relatives = impl_->relatives,
                                                    .is_private = true})));
}

MemoryPool::Allocation MemoryPool::allocate(size_t bytes, const CurrentFunction& holder) {
  Impl& pool = *impl_;
  std::unique_lock lock(pool.mutex);
  ++pool.stats.allocations;
  if (bytes == 0) return {};
  if (bytes > std::numeric_limits<size_t>::max() / 2) pool.fail(bytes, lock);  // rounding overflows
  Holders::Holder* const account = pool.holders.find(holder);
  Block* block = pool.take(bytes, false);
  if (!block) {
    ++pool.stats.retries;
    lock.unlock();  // relatives lock each other's pools
    pool.relatives->free_caches();
    lock.lock();
    block = pool.take(bytes, true);
    if (!block) pool.fail(bytes, lock);
  }
  block->in_use = true;
  block->holder = account;
  account->add(block->size);
  ++pool.blocks_in_use;
  pool.stats.cached -= block->size;
  pool.stats.current += block->size;
  pool.stats.peak = std::max(pool.stats.peak, pool.stats.current);
  if (pool.options.poison_free) ADRET_UNPOISON(block->data, bytes);
  return {block->data, block};
}

void MemoryPool::deallocate(Allocation allocation) noexcept {
  if (!allocation.block) return;
  Impl* const pool = allocation.block->pool;
  {
    const std::lock_guard lock(pool->mutex);
    pool->give_back(allocation.block);
    if (!pool->orphaned) return;
    pool->free_cache();
    if (pool->blocks_in_use > 0) return;
  }
  delete pool;
}

size_t MemoryPool::free_cache() noexcept {
  const std::lock_guard lock(impl_->mutex);
  return impl_->free_cache();
}

MemoryStats MemoryPool::stats() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

std::vector<MemoryHolder> MemoryPool::holders(size_t most) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->holders.largest(most);
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stats.peak = impl_->stats.current;
}

}  // namespace adret
