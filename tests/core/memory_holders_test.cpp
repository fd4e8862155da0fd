// Memory pools: who holds what, pools beside each other, and allocations passed through.
#include <adret/core/error.h>
#include <adret/core/memory_pool.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fake_allocator.h"

namespace adret {
namespace {

using namespace test;

constexpr size_t kib = 1024, mib = 1024 * kib;

// -- who holds what ---------------------------------------------------------------------

std::vector<std::string> names(const std::vector<MemoryHolder>& holders) {
  std::vector<std::string> list;
  for (const MemoryHolder& holder : holders) list.push_back(holder.name);
  return list;
}

TEST(MemoryHolders, AreListedByBytesWhileTheyHoldAny) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  const auto a = pool.allocate(1000, {.name = "relu"}), b = pool.allocate(64, {.name = "conv2d"}),
             c = pool.allocate(3000, {.name = "conv2d", .backward = true}),
             d = pool.allocate(2000, {.name = "relu"}), nothing = pool.allocate(0, {.name = "sum"});
  const std::vector<MemoryHolder> holders = pool.holders();
  EXPECT_EQ(names(holders), (std::vector<std::string>{"relu", "conv2d backward", "conv2d"}));
  EXPECT_EQ(holders[0].bytes, 1024u + 2048u);  // in whole units of 64
  EXPECT_EQ(holders[0].blocks, 2);
  EXPECT_EQ(names(pool.holders(1)), (std::vector<std::string>{"relu"}));
  pool.deallocate(a);
  pool.deallocate(d);
  EXPECT_EQ(names(pool.holders()), (std::vector<std::string>{"conv2d backward", "conv2d"}));
  for (const auto& block : {b, c, nothing}) pool.deallocate(block);
  EXPECT_TRUE(pool.holders().empty());
}

TEST(MemoryHolders, AreToldApartByTheirTextNotTheAddressOfIt) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  char name[] = "fit/fc1";
  const auto a = pool.allocate(100, {.name = name});
  name[6] = '2';  // another module where the first was
  const auto b = pool.allocate(200, {.name = name});
  const char again[] = "fit/fc1";
  const auto c = pool.allocate(300, {.name = again});
  EXPECT_EQ(names(pool.holders()), (std::vector<std::string>{"fit/fc1", "fit/fc2"}));
  for (const auto& block : {a, b, c}) pool.deallocate(block);
}

TEST(MemoryHolders, AreSummedUpWhenNamesDoNotEnd) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  std::vector<MemoryPool::Allocation> blocks;
  for (int i = 0; i < 5000; ++i) {
    blocks.push_back(pool.allocate(64, {.name = ("step " + std::to_string(i)).c_str()}));
  }
  const std::vector<MemoryHolder> holders = pool.holders(10000);
  EXPECT_EQ(holders.size(), 4097u);
  EXPECT_EQ(holders[0].name, "others");
  EXPECT_EQ(holders[0].blocks, 5000 - 4096);
  for (const auto& block : blocks) pool.deallocate(block);
  EXPECT_TRUE(pool.holders().empty());
}

TEST(MemoryHolders, AreTenInTheReport) {
  FakeAllocator raw(4 * mib);
  MemoryPool pool("fake", raw);
  std::vector<MemoryPool::Allocation> blocks;
  for (int i = 0; i < 12; ++i) {
    blocks.push_back(
        pool.allocate(size_t(i + 1) * kib, {.name = ("f" + std::to_string(i)).c_str()}));
  }
  const std::string text = thrown<OutOfMemory>([&] { return pool.allocate(8 * mib).data; });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "f11 12.00 KiB in 1, f10 11.00 KiB in 1", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "f2 3.00 KiB in 1; use a smaller", text);
  for (const auto& block : blocks) pool.deallocate(block);
}

// -- private pools ----------------------------------------------------------------------

TEST(PrivatePools, ShareTheRawAllocatorAndNoMemory) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw, {.alignment = 512});
  pool.deallocate(pool.allocate(100));
  const std::unique_ptr<MemoryPool> own = pool.make_private("step");
  const auto block = own->allocate(100);
  EXPECT_EQ(raw.allocate_calls, 2);
  EXPECT_EQ(own->stats().current, 512u);
  EXPECT_EQ(pool.stats().current, 0u);
  MemoryPool::deallocate(block);
  EXPECT_EQ(own->stats().current, 0u);
  EXPECT_EQ(own->free_cache(), 2 * mib);
  EXPECT_EQ(raw.bytes_held(), 2 * mib);
}

TEST(PrivatePools, KeepTheirCacheAndTakeThatOfTheOtherOnes) {
  FakeAllocator raw(64 * mib);
  MemoryPool pool("fake", raw);
  const std::unique_ptr<MemoryPool> own = pool.make_private("step");
  const auto block = own->allocate(40 * mib);
  MemoryPool::deallocate(block);
  const std::string text = thrown<OutOfMemory>([&] { return pool.allocate(50 * mib).data; });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "[memory] fake has no room for 50.00 MiB", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "40.00 MiB reserved by the device's other pools", text);
  const auto again = own->allocate(40 * mib);
  EXPECT_EQ(again.data, block.data);  // a captured step writes there
  MemoryPool::deallocate(pool.allocate(20 * mib));
  const auto more = own->allocate(20 * mib);
  EXPECT_EQ(pool.stats().reserved, 0u);
  EXPECT_EQ(own->stats().retries, 1);
  for (const auto& each : {again, more}) MemoryPool::deallocate(each);
  EXPECT_EQ(own->free_cache(), 60 * mib);
}

TEST(PrivatePools, KeepTheirCacheOfAPoolThatPassesThrough) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw, {.pass_through = true});
  const std::unique_ptr<MemoryPool> own = pool.make_private("step");
  MemoryPool::deallocate(own->allocate(100));
  EXPECT_EQ(raw.bytes_held(), 2 * mib);
}

TEST(PrivatePools, KeepTheirBlocksInUseWhenDestroyed) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw);
  std::unique_ptr<MemoryPool> own = pool.make_private("step");
  const auto a = own->allocate(30 * mib), b = own->allocate(100);
  MemoryPool::deallocate(own->allocate(50 * mib));
  own.reset();
  EXPECT_EQ(raw.bytes_held(), 32 * mib);  // the cached segment went
  static_cast<char*>(a.data)[30 * mib - 1] = 1;
  MemoryPool::deallocate(a);
  EXPECT_EQ(raw.bytes_held(), 2 * mib);
  MemoryPool::deallocate(b);
  EXPECT_EQ(raw.bytes_held(), 0u);
  EXPECT_EQ(raw.bad_frees, 0);
  pool.deallocate(pool.allocate(8));  // its relatives know nothing of it any more
}

TEST(PrivatePools, ServeThreadsThatRunOutAtTheSameTime) {
  FakeAllocator raw(100 * mib);
  MemoryPool pool("fake", raw);
  const std::unique_ptr<MemoryPool> own = pool.make_private("step");
  std::vector<std::thread> threads;
  for (MemoryPool* mine : {&pool, own.get()}) {
    threads.emplace_back([mine] {
      for (size_t i = 0; i < 500; ++i) {
        try {
          MemoryPool::deallocate(mine->allocate((30 + i % 60) * mib));
        } catch (const OutOfMemory&) {  // the other one has it
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(raw.bad_frees, 0);
  EXPECT_EQ(pool.stats().reserved + own->stats().reserved, raw.bytes_held());
}

// -- pass-through -----------------------------------------------------------------------

TEST(PassThrough, AsksAndFreesTheRawAllocatorForJustTheBytes) {
  FakeAllocator raw;
  MemoryPool pool("fake", raw, {.alignment = 512, .pass_through = true});
  const auto a = pool.allocate(100), b = pool.allocate(3 * mib + 1);
  EXPECT_EQ(raw.bytes_held(), 100 + 3 * mib + 1);
  EXPECT_EQ(pool.stats().current, 100 + 3 * mib + 1);
  EXPECT_EQ(pool.stats().reserved, raw.bytes_held());
  pool.deallocate(a);
  EXPECT_EQ(raw.bytes_held(), 3 * mib + 1);
  pool.deallocate(b);
  EXPECT_EQ(raw.bytes_held(), 0u);
  EXPECT_EQ(pool.stats().cached, 0u);
  EXPECT_EQ(pool.stats().peak, 100 + 3 * mib + 1);
}

TEST(PassThrough, RunsOutLikeAPool) {
  FakeAllocator raw(mib);
  MemoryPool pool("fake", raw, {.pass_through = true});
  const auto held = pool.allocate(600 * kib);
  EXPECT_THROW(pool.allocate(600 * kib), OutOfMemory);
  EXPECT_EQ(pool.stats().retries, 1);
  EXPECT_EQ(pool.stats().failures, 1);
  pool.deallocate(held);
  pool.deallocate(pool.allocate(600 * kib));
  EXPECT_EQ(pool.stats().reserved, raw.bytes_held());
}

}  // namespace
}  // namespace adret
