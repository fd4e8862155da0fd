// Plans of random lifetimes never overlap; small ones by hand.
#include <adret/core/philox.h>
#include <adret/core/random.h>
#include <adret/core/replay/memory_plan.h>
#include <gtest/gtest.h>

#include <vector>

namespace adret {
namespace {

TEST(MemoryPlan, ReusesWhatIsOver) {
  // 0-1 and 2-3 never meet; the one from 1 to 2 meets both.
  const std::vector<Lifetime> lives = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}};
  const MemoryPlan plan = plan_memory(lives, 64);
  EXPECT_EQ(plan.bytes, 256u);
  EXPECT_EQ(peak_bytes(lives, 64), 256u);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
}

TEST(MemoryPlan, FillsTheLowestGap) {
  const std::vector<Lifetime> lives = {{300, 0, 9}, {200, 0, 4}, {64, 5, 9}, {128, 5, 9}};
  const MemoryPlan plan = plan_memory(lives, 64);
  EXPECT_EQ(plan.offsets, (std::vector<size_t>{0, 320, 448, 320}));
  EXPECT_EQ(plan.bytes, 576u);  // 320 and 256
}

TEST(MemoryPlan, NothingTakesNothing) {
  EXPECT_EQ(plan_memory({}, 64).bytes, 0u);
  const std::vector<Lifetime> empty = {{0, 0, 3}, {0, 1, 2}};
  EXPECT_EQ(plan_memory(empty, 64).bytes, 0u);
  EXPECT_EQ(peak_bytes(empty, 64), 0u);
}

TEST(MemoryPlan, WhatMeetsNeverOverlaps) {
  for (uint32_t round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    const uint32_t count = philox({round, 0, 0, 0}, {1, 1})[0] % 40;
    for (uint32_t i = 0; i < count; ++i) {
      const auto bits = philox({round, i, 0, 0}, {2, 2});
      const size_t first = bits[0] % 30;
      lives.push_back({bits[1] % 5000, first, first + bits[2] % (1 + bits[3] % 10)});
    }
    const MemoryPlan plan = plan_memory(lives, 512);
    for (size_t i = 0; i < lives.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 512, 0u);
      EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool meet = lives[i].first <= lives[j].last && lives[j].first <= lives[i].last;
        const bool apart = plan.offsets[i] + lives[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + lives[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart || !meet || lives[i].bytes == 0 || lives[j].bytes == 0) << round;
      }
    }
    EXPECT_GE(plan.bytes, peak_bytes(lives, 512)) << "round " << round;
  }
}

}  // namespace
}  // namespace adret
