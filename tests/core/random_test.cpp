// Philox against its published vectors; seeds, streams and steps; permutations.
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace adret {
namespace {

using Words = std::array<uint32_t, 4>;

// The lines "philox4x32 10" of kat_vectors in the Random123 library (Salmon et al. 2011).
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi.
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeepsSeedsAndStreamsApart) {
  std::set<std::array<uint32_t, 2>> keys;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    for (uint32_t stream = 0; stream < 5; ++stream) {
      keys.insert(philox_key({.seed = seed, .stream = RandomStream(stream)}));
      keys.insert(philox_key({.seed = seed << 32 | 0xabcd, .stream = RandomStream(stream)}));
    }
  }
  EXPECT_EQ(keys.size(), 10'000u);
}

TEST(Philox, CountsBlocksCallsAndSteps) {
  EXPECT_EQ(philox_counter({.call = 7}, 0x123456789, 5), (Words{0x23456789, 1, 7, 5}));
}

// Uniform bits of one stream: mean 0.5 and variance 1/12 within 5 standard errors.
std::vector<double> draw(const RandomKey& key, int64_t step, size_t blocks) {
  std::vector<double> values;
  for (size_t i = 0; i < blocks; ++i) {
    for (uint32_t word : philox(philox_counter(key, i, step), philox_key(key))) {
      values.push_back((double(word) + 0.5) * 0x1p-32);
    }
  }
  return values;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - 0.5) * (b[i] - 0.5);
  return sum / double(a.size()) * 12;
}

TEST(Philox, IsUniformAndIndependentAcrossStreamsCallsAndSteps) {
  const size_t blocks = 25'000;  // 100,000 numbers
  const double n = 4.0 * double(blocks);
  const RandomKey key{.seed = 1, .stream = RandomStream::dropout};
  const auto base = draw(key, 0, blocks);
  double square = 0;
  for (double value : base) square += (value - 0.5) * (value - 0.5);
  EXPECT_NEAR(mean(base), 0.5, 5 * std::sqrt(1 / 12.0 / n));
  EXPECT_NEAR(square / n, 1 / 12.0, 5 * std::sqrt(1 / 180.0 / n));
  // Each other sequence is uncorrelated with the first: a correlation has standard error 1/sqrt(n).
  RandomKey seed = key, stream = key, call = key;
  seed.seed = 2;
  stream.stream = RandomStream::augment;
  call.call = 1;
  for (const auto& other : {draw(seed, 0, blocks), draw(stream, 0, blocks), draw(call, 0, blocks),
                            draw(key, 1, blocks)}) {
    EXPECT_NEAR(correlation(base, other), 0, 5 / std::sqrt(n));
  }
}

TEST(Generator, RestartsWithTheSeed) {
  random::manual_seed(3);
  const RandomKey first = random::next(RandomStream::init),
                  second = random::next(RandomStream::init);
  EXPECT_EQ(first.seed, 3u);
  EXPECT_EQ(first.call, 0u);
  EXPECT_EQ(second.call, 1u);
  random::begin_step(9);
  random::manual_seed(3);
  EXPECT_EQ(random::next(RandomStream::init).call, 0u);
  EXPECT_EQ(random::step(), 0);
  EXPECT_EQ(random::seed(), 3u);
}

TEST(Generator, CountsTheCallsOfEachStreamAndStepApart) {
  random::manual_seed(1);
  for (int i = 0; i < 3; ++i) random::next(RandomStream::dropout);
  EXPECT_EQ(random::next(RandomStream::shuffle).call, 0u);
  EXPECT_EQ(random::next(RandomStream::user).call, 0u);
  random::begin_step(1);
  EXPECT_EQ(random::next(RandomStream::dropout).call, 0u);
  EXPECT_EQ(random::next(RandomStream::augment).call, 0u);
  EXPECT_EQ(random::next(RandomStream::shuffle).call, 1u);  // goes on
  EXPECT_EQ(random::next(RandomStream::user).call, 1u);
}

TEST(Generator, WritesTheStepIntoItsWord) {
  random::manual_seed(1);
  const Tensor word = random::step_word(Device::cpu());
  EXPECT_EQ(word.shape(), Shape{});
  EXPECT_EQ(word.item<int64_t>(), 0);
  random::begin_step(1'000'000'007);
  EXPECT_EQ(word.item<int64_t>(), 1'000'000'007);
  EXPECT_EQ(random::step_word(Device::cpu()).data(), word.data());
}

TEST(Generator, BelongsToItsThread) {
  random::manual_seed(5);
  random::next(RandomStream::user);
  std::thread([] { EXPECT_EQ(random::next(RandomStream::user).call, 0u); }).join();
  EXPECT_EQ(random::next(RandomStream::user).call, 1u);
}

TEST(Permutation, HoldsEachNumberOnceAndRepeats) {
  for (int64_t n : {0, 1, 2, 1000}) {
    std::vector<int64_t> order = random::permutation(n, {.seed = 1}, 0);
    EXPECT_EQ(order, random::permutation(n, {.seed = 1}, 0));
    std::sort(order.begin(), order.end());
    std::vector<int64_t> expected(static_cast<size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
}

TEST(Permutation, DiffersBySeedCallAndStep) {
  const RandomKey key{.seed = 1, .stream = RandomStream::shuffle};
  const auto base = random::permutation(100, key, 0);
  EXPECT_NE(base, random::permutation(100, key, 1));
  EXPECT_NE(base, random::permutation(100, {.seed = 2, .stream = RandomStream::shuffle}, 0));
  EXPECT_NE(base,
            random::permutation(100, {.seed = 1, .stream = RandomStream::shuffle, .call = 1}, 0));
}

TEST(Permutation, FavoursNoOrder) {
  // All 24 orders of 4 over 24,000 draws: chi squared with 23 degrees of freedom stays below 64
  // with probability 1 - 1e-5.
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t step = 0; step < 24'000; ++step) ++counts[random::permutation(4, {.seed = 7}, step)];
  EXPECT_EQ(counts.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : counts)
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 64);
}

}  // namespace
}  // namespace adret
