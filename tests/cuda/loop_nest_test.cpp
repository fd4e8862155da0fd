// Indices on the device, computed by the host: division by multiplication, and merged loops.
#include <adret/core/cuda/loop_nest.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace adret::cuda {
namespace {

TEST(FastDivisor, DividesLikeTheProcessor) {
  constexpr uint32_t largest = (1u << 31) - 1;
  std::vector<uint32_t> divisors{largest, largest - 1};
  for (uint32_t d = 1; d < 300; ++d) divisors.push_back(d);
  for (int bit = 8; bit < 31; ++bit) {
    for (int32_t off : {-1, 0, 1}) divisors.push_back((1u << bit) + uint32_t(off));
  }
  std::mt19937 generator(1);
  for (uint32_t divisor : divisors) {
    const FastDivisor fast(divisor);
    EXPECT_EQ(fast.divisor(), divisor);
    std::vector<uint32_t> dividends{0,       1,       divisor - 1,
                                    divisor, largest, largest / divisor * divisor};
    if (largest / divisor > 1) dividends.push_back(largest / divisor * divisor - 1);
    for (int i = 0; i < 1000; ++i) dividends.push_back(uint32_t(generator() >> 1));
    for (uint32_t dividend : dividends) {
      ASSERT_EQ(fast.quotient(dividend), dividend / divisor) << dividend << " by " << divisor;
    }
  }
}

TEST(LoopNest, MergesWhatAllOperandsPassAsOne) {
  const Shape whole{4, 5, 6}, row{6}, column{4, 1, 1};
  EXPECT_EQ(broadcast_nest<2>(whole, {&whole, &whole}).rank(), 1);
  EXPECT_EQ(broadcast_nest<2>(whole, {&whole, &row}).rank(), 2);
  EXPECT_EQ(broadcast_nest<2>(whole, {&row, &column}).rank(), 3);
  const Shape scalar;
  EXPECT_EQ(broadcast_nest<1>(whole, {&scalar}).rank(), 1);
  EXPECT_EQ(broadcast_nest<1>(scalar, {&scalar}).rank(), 0);
}

TEST(LoopNest, FindsTheOperandsOfEachElement) {
  const Shape shape{2, 3, 4}, middle{3, 1}, last{2, 1, 4};
  const LoopNest<2> nest = broadcast_nest<2>(shape, {&middle, &last});
  const auto offsets = nest.offsets();
  for (uint32_t i = 0; i < 24; ++i) {
    const auto places = offsets(i);
    EXPECT_EQ(places.at[0], i / 4 % 3);
    EXPECT_EQ(places.at[1], i / 12 * 4 + i % 4);
  }
}

TEST(LoopNest, CutsWhatHasTooManyElementsFor31Bits) {
  LoopNest<1> nest;
  nest.add(3, {1});
  nest.add(5, {3});
  nest.add(int64_t(1) << 30, {15});
  int64_t expected = 0;
  nest.for_parts([&](const LoopNest<1>& part, int64_t first, const auto& offsets) {
    EXPECT_EQ(first, expected);
    EXPECT_LE(part.total(), INT32_MAX);
    const int64_t inner = int64_t(1) << 30;
    EXPECT_EQ(offsets[0], first / inner / 5 + first / inner % 5 * 3 + first % inner * 15);
    expected += part.total();
  });
  EXPECT_EQ(expected, nest.total());

  LoopNest<1> flat;
  flat.add((int64_t(1) << 33) + 10, {1});
  expected = 0;
  flat.for_parts([&](const LoopNest<1>& part, int64_t first, const auto& offsets) {
    EXPECT_EQ(first, expected);
    EXPECT_EQ(offsets[0], first);
    EXPECT_EQ(first % 16, 0) << "aligned like the whole";
    expected += part.total();
  });
  EXPECT_EQ(expected, flat.total());

  int parts = 0;
  LoopNest<1> empty;
  empty.add(0, {1});
  empty.for_parts([&](const LoopNest<1>&, int64_t, const auto&) { ++parts; });
  EXPECT_EQ(parts, 0);
}

}  // namespace
}  // namespace adret::cuda
