// The memory pool: reuse, splitting, joining, statistics, recovery, and many threads at once.
#include <adret/core/error.h>
#include <adret/core/memory_pool.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/fake_allocator.h"

namespace adret {
namespace {

using namespace test;

constexpr size_t kib = 1024, mib = 1024 * kib;

void expect_consistent(const MemoryStats& stats, const FakeAllocator& raw) {
  EXPECT_EQ(stats.reserved, raw.bytes_held());
  EXPECT_EQ(stats.reserved, stats.current + stats.cached);
  EXPECT_GE(stats.peak, stats.current);
  EXPECT_EQ(raw.bad_frees, 0);
}

TEST(MemoryPool, ReusesAFreedBlockWithoutAskingAgain) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  for (size_t bytes : {size_t(100), 300 * kib, 3 * mib, 40 * mib}) {
    const auto first = pool.allocate(bytes);
    pool.deallocate(first);
    const int calls = raw.allocate_calls;
    const auto second = pool.allocate(bytes);
    EXPECT_EQ(second.data, first.data) << bytes;
    EXPECT_EQ(raw.allocate_calls, calls) << bytes;
    pool.deallocate(second);
  }
  EXPECT_EQ(pool.stats().misses, 3);  // the first two share a segment
  EXPECT_EQ(pool.stats().allocations, 8);
}

TEST(MemoryPool, GivesNothingForZeroBytes) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  const auto nothing = pool.allocate(0);
  EXPECT_EQ(nothing.data, nullptr);
  EXPECT_EQ(nothing.block, nullptr);
  pool.deallocate(nothing);
  EXPECT_EQ(raw.allocate_calls, 0);
  EXPECT_EQ(pool.stats().current, 0u);
}

TEST(MemoryPool, CutsSmallRequestsFromOneSegment) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  std::vector<MemoryPool::Allocation> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(pool.allocate(64 * kib));
  EXPECT_EQ(raw.allocate_calls, 1);
  EXPECT_EQ(raw.bytes_held(), 2 * mib);
  EXPECT_EQ(pool.stats().cached, 0u);
  blocks.push_back(pool.allocate(64 * kib));
  EXPECT_EQ(raw.allocate_calls, 2);
  for (const auto& block : blocks) pool.deallocate(block);
}

TEST(MemoryPool, JoinsFreedNeighboursInAnyOrder) {
  // Four quarters of a segment of 2 MiB; after all are back, a request of half of it twice fits.
  std::vector<int> order{0, 1, 2, 3};
  do {
    FakeAllocator raw;
    MemoryPool pool("fake", raw);
    std::vector<MemoryPool::Allocation> quarters;
    for (int i = 0; i < 4; ++i) quarters.push_back(pool.allocate(512 * kib));
    for (int i : order) pool.deallocate(quarters[size_t(i)]);
    const auto low = pool.allocate(mib), high = pool.allocate(mib);
    EXPECT_EQ(raw.allocate_calls, 1);
    pool.deallocate(low);
    pool.deallocate(high);
    EXPECT_EQ(pool.free_cache(), 2 * mib);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(MemoryPool, NeverJoinsBlocksOfDifferentSegments) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  const auto a = pool.allocate(24 * mib), b = pool.allocate(24 * mib);
  pool.deallocate(a);
  pool.deallocate(b);
  const auto both = pool.allocate(48 * mib);
  EXPECT_EQ(raw.allocate_calls, 3);
  pool.deallocate(both);
}

TEST(MemoryPool, SplitsALargeFreeBlockAndKeepsTheRest) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  pool.deallocate(pool.allocate(64 * mib));
  const auto a = pool.allocate(40 * mib), b = pool.allocate(24 * mib);
  EXPECT_EQ(raw.allocate_calls, 1);
  EXPECT_EQ(static_cast<std::byte*>(b.data) - static_cast<std::byte*>(a.data),
            std::ptrdiff_t(40 * mib));
  EXPECT_EQ(pool.stats().current, 64 * mib);
  pool.deallocate(a);
  pool.deallocate(b);
}

TEST(MemoryPool, PrefersTheFreeBlockOfJustThatSize) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  // Free blocks of 1088 and 1024 bytes in one bin, kept apart by blocks in use.
  const auto exact = pool.allocate(1024), wall = pool.allocate(64), loose = pool.allocate(1088),
             end = pool.allocate(64);
  pool.deallocate(exact);
  pool.deallocate(loose);
  const auto again = pool.allocate(1024);
  EXPECT_EQ(again.data, exact.data);
  for (const auto& block : {again, wall, end}) pool.deallocate(block);
}

TEST(MemoryPool, AlignsPointersAndSizes) {
  for (size_t alignment : {size_t(64), size_t(512)}) {
    FakeAllocator raw;
    MemoryPool pool("fake", raw, {.alignment = alignment});
    std::vector<MemoryPool::Allocation> blocks;
    size_t expected = 0;
    for (size_t bytes : {1, 63, 64, 65, 511, 513, 100000}) {
      blocks.push_back(pool.allocate(bytes));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().data) % alignment, 0u) << bytes;
      expected += (bytes + alignment - 1) / alignment * alignment;
    }
    EXPECT_EQ(pool.stats().current, expected);
    for (const auto& block : blocks) pool.deallocate(block);
  }
}

TEST(MemoryPool, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  FakeAllocator raw;
  try {
    MemoryPool pool("fake", raw, {.alignment = 48});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[memory] fake: an alignment is a power of two from 8 on, not 48");
  }
}

TEST(MemoryPool, CountsWhatIsInUseCachedAndReserved) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  const auto a = pool.allocate(100), b = pool.allocate(mib), c = pool.allocate(30 * mib);
  MemoryStats stats = pool.stats();
  EXPECT_EQ(stats.current, 128 + mib + 30 * mib);
  EXPECT_EQ(stats.reserved, 2 * mib + 30 * mib);
  EXPECT_EQ(stats.cached, mib - 128);
  pool.deallocate(c);
  stats = pool.stats();
  EXPECT_EQ(stats.current, 128 + mib);
  EXPECT_EQ(stats.peak, 128 + mib + 30 * mib);
  pool.reset_peak();
  EXPECT_EQ(pool.stats().peak, 128 + mib);
  EXPECT_EQ(pool.free_cache(), 30 * mib);  // the small segment is in use
  expect_consistent(pool.stats(), raw);
  pool.deallocate(a);
  pool.deallocate(b);
  stats = pool.stats();
  EXPECT_EQ(stats.current, 0u);
  EXPECT_EQ(stats.allocations, 3);
  EXPECT_EQ(stats.misses, 2);
  EXPECT_EQ(stats.retries, 0);
  EXPECT_EQ(stats.failures, 0);
}

TEST(MemoryPool, FreesItsCacheAndRetriesWhenTheRawAllocatorFails) {
  FakeAllocator raw(48 * mib);
  MemoryPool pool("fake", raw);
  pool.deallocate(pool.allocate(32 * mib));
  const auto big = pool.allocate(40 * mib);  // fits only without the 32 MiB
  EXPECT_NE(big.data, nullptr);
  EXPECT_EQ(pool.stats().retries, 1);
  EXPECT_EQ(pool.stats().failures, 0);
  EXPECT_EQ(raw.allocate_calls, 3);
  expect_consistent(pool.stats(), raw);
  pool.deallocate(big);
}

TEST(MemoryPool, TakesASegmentThatJustFitsWhenMemoryIsShort) {
  FakeAllocator raw(5 * mib);  // less than the 20 MiB that medium requests share
  MemoryPool pool("fake", raw);
  const auto block = pool.allocate(4 * mib);
  EXPECT_EQ(raw.bytes_held(), 4 * mib);
  pool.deallocate(block);
}

TEST(MemoryPool, SaysWhatWasAskedHeldAndCachedWhenOutOfMemory) {
  FakeAllocator raw(64 * mib);
  MemoryPool pool("fake", raw);
  const auto held = pool.allocate(40 * mib, {.name = "conv2d"}), small = pool.allocate(512 * kib);
  try {
    pool.allocate(30 * mib);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(),
                 "[memory] fake has no room for 30.00 MiB (31457280 bytes), also after freeing its "
                 "cache: 22.00 MiB free, 40.50 MiB in use, 1.50 MiB cached in pieces, 42.00 MiB "
                 "reserved; most is held by conv2d 40.00 MiB in 1, outside of functions 512.00 KiB "
                 "in 1; use a smaller batch or model, or free tensors");
  }
  EXPECT_EQ(pool.stats().failures, 1);
  EXPECT_EQ(pool.stats().retries, 1);
  EXPECT_EQ(raw.allocate_calls, 4);  // two that worked, the failure and one retry
  expect_consistent(pool.stats(), raw);

  // After the error the pool works on, and serves the request once there is room.
  pool.deallocate(held);
  const auto later = pool.allocate(30 * mib);
  EXPECT_NE(later.data, nullptr);
  pool.deallocate(later);
  pool.deallocate(small);
}

TEST(MemoryPool, RefusesSizesThatOverflow) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  EXPECT_THROW(pool.allocate(SIZE_MAX), OutOfMemory);
  EXPECT_THROW(pool.allocate(SIZE_MAX / 2 + 1), OutOfMemory);
  EXPECT_THROW(pool.allocate(SIZE_MAX / 2), OutOfMemory);
  EXPECT_EQ(pool.stats().failures, 3);
}

TEST(MemoryPool, ReturnsEverythingWhenDestroyed) {
  FakeAllocator raw;
  {
    MemoryPool pool("fake", raw);
    std::vector<MemoryPool::Allocation> blocks;
    for (size_t i = 1; i < 200; ++i) blocks.push_back(pool.allocate(i * 12345));
    for (const auto& block : blocks) pool.deallocate(block);
    EXPECT_GT(raw.bytes_held(), 0u);
  }
  EXPECT_EQ(raw.bytes_held(), 0u);
  EXPECT_EQ(raw.bad_frees, 0);
}

TEST(MemoryPool, StaysBoundedOverAMillionSmallBlocks) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  std::vector<MemoryPool::Allocation> stack;
  std::mt19937 random(1);
  size_t largest = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    if (stack.size() < 100 && (stack.empty() || random() % 2)) {
      stack.push_back(pool.allocate(random() % 4096 + 1));
    } else {
      std::swap(stack[random() % stack.size()], stack.back());
      pool.deallocate(stack.back());
      stack.pop_back();
    }
    largest = std::max(largest, stack.size());
  }
  EXPECT_EQ(raw.allocate_calls, 1);  // 100 blocks of up to 4 KiB never need a second segment
  EXPECT_EQ(largest, 100u);
  for (const auto& block : stack) pool.deallocate(block);
  expect_consistent(pool.stats(), raw);
}

TEST(MemoryPool, MissesNothingOnceEqualStepsHaveSettled) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  int64_t misses = 0;
  for (int step = 0; step < 1000; ++step) {
    std::vector<MemoryPool::Allocation> blocks;
    for (size_t layer = 1; layer <= 20; ++layer) {
      blocks.push_back(pool.allocate(layer * 700'000));
      pool.deallocate(pool.allocate(layer * 300'000));  // a temporary
      blocks.push_back(pool.allocate(layer * 40));
    }
    for (const auto& block : blocks) pool.deallocate(block);
    if (step == 9) misses = pool.stats().misses;
  }
  EXPECT_EQ(pool.stats().misses, misses);
  EXPECT_EQ(pool.stats().current, 0u);
}

TEST(MemoryPool, StaysBoundedWhenSizesChangeAtRandom) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  std::mt19937 random(2);
  for (int step = 0; step < 2000; ++step) {
    const size_t side = 200 + random() % 101;
    std::vector<MemoryPool::Allocation> blocks;
    for (size_t channels : {3, 16, 32, 64})
      blocks.push_back(pool.allocate(side * side * channels * 4));
    for (const auto& block : blocks) pool.deallocate(block);
  }
  // One step needs at most 41.4 MB; sizes differ 2.25-fold, so a few segments of each size do.
  EXPECT_LE(raw.bytes_held(), 4 * 42 * mib);
}

TEST(MemoryPool, ServesManyThreadsWithoutMixingBlocks) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  std::vector<std::thread> threads;
  std::vector<int> errors(4, 0);
  for (size_t id = 0; id < errors.size(); ++id) {
    threads.emplace_back([&, id] {
      struct Held {
        MemoryPool::Allocation allocation;
        size_t bytes;
        uint8_t mark;
      };
      std::mt19937 random{uint32_t(id)};
      std::vector<Held> held;
      const auto release = [&](size_t at) {
        const Held& block = held[at];
        const auto* data = static_cast<const uint8_t*>(block.allocation.data);
        errors[id] += data[0] != block.mark || data[block.bytes - 1] != block.mark;
        pool.deallocate(block.allocation);
        held[at] = held.back();
        held.pop_back();
      };
      for (int i = 0; i < 20'000; ++i) {
        if (held.size() > 50) release(random() % held.size());
        const size_t bytes = random() % (i % 50 ? 5'000 : 3'000'000) + 1;
        const uint8_t mark = uint8_t(random());
        held.push_back({pool.allocate(bytes), bytes, mark});
        auto* data = static_cast<uint8_t*>(held.back().allocation.data);
        data[0] = data[bytes - 1] = mark;
      }
      while (!held.empty()) release(held.size() - 1);
    });
  }
  for (auto& thread : threads) thread.join();
  for (int count : errors) EXPECT_EQ(count, 0);
  const MemoryStats stats = pool.stats();
  EXPECT_EQ(stats.current, 0u);
  EXPECT_EQ(stats.allocations, 80'000);
  expect_consistent(stats, raw);
  EXPECT_EQ(pool.free_cache(), stats.reserved);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(MemoryPoolDeathTest, ReportsATouchOfAFreedBlock) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw, {.poison_free = true});
  const auto block = pool.allocate(100);
  auto* data = static_cast<volatile char*>(block.data);
  data[99] = 1;
  EXPECT_DEATH(data[100] = 1, "use-after-poison");  // past the request, within the rounding
  pool.deallocate(block);
  EXPECT_DEATH(data[0] = 1, "use-after-poison");
}
#endif

}  // namespace
}  // namespace adret
