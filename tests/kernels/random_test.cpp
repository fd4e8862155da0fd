// Random fills and dropout: the words they take, their distribution, and that nothing else matters.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

const RandomKey key{.seed = 11, .stream = RandomStream::init, .call = 3};

Tensor step_of(int64_t step) { return Tensor::from<int64_t>({step}, {}); }

// Word `index` of the call, from one block at a time (Note [Random kernels]).
uint32_t word(uint64_t index, int64_t step) {
  return philox(philox_counter(key, index / 4, step), philox_key(key))[index % 4];
}

template <class T>
Values uniform(int64_t n, double low, double high, int64_t step = 0) {
  const Guarded<T> y({n});
  run(kernels::RandomUniform{.y = y, .step = step_of(step), .key = key, .low = low, .high = high});
  EXPECT_TRUE(y.guards_intact());
  return y.values();
}

template <class T>
Values normal(int64_t n, double mean, double std) {
  const Guarded<T> y({n});
  run(kernels::RandomNormal{.y = y, .step = step_of(0), .key = key, .mean = mean, .std = std});
  EXPECT_TRUE(y.guards_intact());
  return y.values();
}

TEST(RandomUniform, TakesTheWordsOfItsElements) {
  for (int64_t n : {0, 1, 5, 33, 10'001}) {
    const Values f32 = uniform<float>(n, 0, 1, 7), f64 = uniform<double>(n, 0, 1, 7);
    for (size_t e = 0; e < size_t(n); ++e) {
      ASSERT_EQ(f32[e], double(word(e, 7) >> 8) / (1 << 24)) << e;
      const uint64_t bits = word(2 * e, 7) | uint64_t(word(2 * e + 1, 7)) << 32;
      ASSERT_EQ(f64[e], double(bits >> 11) / 9007199254740992.0) << e;  // 2^53
    }
  }
}

TEST(RandomUniform, StaysBelowTheUpperEnd) {
  // One step of f32 wide: half of the unbounded results would round up to the end.
  const float low = 1, high = std::nextafter(1.0f, 2.0f);
  for (double v : uniform<float>(1000, low, high)) ASSERT_EQ(v, 1.0);
  for (double v : uniform<float>(100'000, -3, 5)) ASSERT_TRUE(v >= -3 && v < 5);
  for (double v : uniform<double>(10, 2, 2)) ASSERT_EQ(v, 2);
}

// The numbers of f32 rounded, but for those that rounding takes to the upper end: the largest below
// 1 is 1 - 2^-8 in bf16 and 1 - 2^-11 in f16.
TEST(RandomUniform, RoundsToSixteenBitsBelowTheUpperEnd) {
  const Values f32 = uniform<float>(100'000, 0, 1), bf16 = uniform<bfloat16>(100'000, 0, 1),
               f16 = uniform<float16>(100'000, 0, 1);
  for (size_t e = 0; e < f32.size(); ++e) {
    ASSERT_EQ(bf16[e], std::min<double>(bfloat16(float(f32[e])), 1 - 0x1p-8)) << e;
    ASSERT_EQ(f16[e], std::min<double>(float16(float(f32[e])), 1 - 0x1p-11)) << e;
  }
}

TEST(RandomUniform, KnowsTheLargestNumberBelowTheUpperEnd) {
  const auto last = [](DType dtype, double low, double high) {
    const Tensor y = Tensor::empty({1}, {.dtype = dtype});
    return kernels::RandomUniform{.y = y, .low = low, .high = high}.last();
  };
  EXPECT_EQ(last(DType::f32, 0, 1), 1 - 0x1p-24);
  EXPECT_EQ(last(DType::f64, 0, 1), 1 - 0x1p-53);
  EXPECT_EQ(last(DType::f32, -2, -1), -1 - 0x1p-23);  // away from zero
  EXPECT_EQ(last(DType::bf16, -2, -1), -1 - 0x1p-7);
  EXPECT_EQ(last(DType::f32, -1, 0), -0x1p-149);
  EXPECT_EQ(last(DType::f16, -1, 0), -0x1p-24);
  EXPECT_EQ(last(DType::bf16, 1, 1 + 0x1p-10), 1);  // no room between the ends
}

TEST(RandomUniform, DiffersByStep) {
  EXPECT_NE(uniform<float>(10, 0, 1, 0), uniform<float>(10, 0, 1, 1));
  EXPECT_EQ(uniform<float>(10, 0, 1, 5), uniform<float>(10, 0, 1, 5));
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
  explicit Moments(const Values& values) {
    const double n = double(values.size());
    for (double v : values) mean += v / n;
    for (double v : values) variance += (v - mean) * (v - mean) / n;
    for (double v : values) {
      const double z = (v - mean) / std::sqrt(variance);
      skewness += z * z * z / n;
      kurtosis += z * z * z * z / n;
    }
  }
};

// Within 5 standard errors of the theory's moments, for 200,000 numbers.
TEST(RandomUniform, HasTheMomentsOfTheDistribution) {
  const double n = 200'000;
  const Moments m(uniform<float>(int64_t(n), -2, 4));
  EXPECT_NEAR(m.mean, 1, 5 * std::sqrt(3 / n));
  EXPECT_NEAR(m.variance, 3, 5 * std::sqrt(36 / 5.0 / n));
}

TEST(RandomNormal, HasTheMomentsOfTheDistribution) {
  const double n = 200'000;
  for (const Values& values : {normal<float>(int64_t(n), 3, 2), normal<double>(int64_t(n), 3, 2)}) {
    const Moments m(values);
    EXPECT_NEAR(m.mean, 3, 5 * 2 / std::sqrt(n));
    EXPECT_NEAR(m.variance, 4, 5 * 4 * std::sqrt(2 / n));
    EXPECT_NEAR(m.skewness, 0, 5 * std::sqrt(6 / n));
    EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24 / n));
  }
}

TEST(RandomNormal, IsBoxAndMullersPair) {
  const Values y = normal<float>(5, 1, 2);
  for (uint64_t pair = 0; pair < 2; ++pair) {
    const double u = double(word(2 * pair, 0) >> 8) / (1 << 24);
    const double v = double(word(2 * pair + 1, 0) >> 8) / (1 << 24);
    const double radius = std::sqrt(-2 * std::log(1 - u));
    EXPECT_EQ(y[2 * pair], double(float(1 + 2 * radius * std::cos(2 * M_PI * v))));
    EXPECT_EQ(y[2 * pair + 1], double(float(1 + 2 * radius * std::sin(2 * M_PI * v))));
  }
  for (double v : normal<float>(3, 4, 0)) EXPECT_EQ(v, 4);
  const Values bf16 = normal<bfloat16>(5, 1, 2), f16 = normal<float16>(5, 1, 2);
  for (size_t e = 0; e < 5; ++e) {
    EXPECT_EQ(bf16[e], double(bfloat16(float(y[e]))));
    EXPECT_EQ(f16[e], double(float16(float(y[e]))));
  }
}

TEST(RandomFills, GiveTheSameBitsForAnyNumberOfThreads) {
  expect_same_for_any_threads([] { return uniform<float>(100'003, 0, 1); });
  expect_same_for_any_threads([] { return normal<double>(50'001, 0, 1); });
}

struct Dropped {
  Values y;
  std::vector<uint8_t> mask;
};

template <class T>
Dropped dropout(const Values& values, double p, int64_t step = 0) {
  const Shape shape{int64_t(values.size())};
  const Guarded<T> x(shape, values), y(shape);
  Tensor mask = Tensor::empty(shape, {.dtype = DType::u8});
  run(kernels::DropoutForward{
      .x = x, .step = step_of(step), .y = y, .mask = mask, .key = key, .p = p});
  EXPECT_TRUE(y.guards_intact());
  return {y.values(), mask.to_vector<uint8_t>()};
}

TEST(Dropout, DropsTheElementsWhoseWordIsSmall) {
  const Values x = random_values(10'001, 1);
  for (double p : {0.1, 0.5, 0.9}) {
    const Dropped result = dropout<float>(x, p, 4);
    for (size_t e = 0; e < x.size(); ++e) {
      const bool kept = double(word(e, 4)) >= p * 4294967296.0;  // 2^32
      ASSERT_EQ(result.mask[e], kept);
      ASSERT_NEAR(result.y[e], kept ? x[e] / (1 - p) : 0, 1e-6 * std::abs(x[e] / (1 - p)));
    }
  }
}

TEST(Dropout, MarksReluZerosInTheMask) {
  Values x = random_values(10'001, 1);
  x[7] = 0;
  x[8] = NAN;
  const Shape shape{int64_t(x.size())};
  const Guarded<float> y(shape);
  Tensor mask = Tensor::empty(shape, {.dtype = DType::u8});
  run(kernels::DropoutForward{.x = Guarded<float>(shape, x),
                              .step = step_of(4),
                              .y = y,
                              .mask = mask,
                              .key = key,
                              .p = 0.3,
                              .activation = kernels::Activation::relu});
  const std::vector<uint8_t> kept = mask.to_vector<uint8_t>();
  const Values actual = y.values();
  for (size_t e = 0; e < x.size(); ++e) {
    const bool stays = double(word(e, 4)) >= 0.3 * 4294967296.0 && !(x[e] <= 0);  // 2^32
    ASSERT_EQ(kept[e], stays) << e;
    if (std::isnan(x[e]) && stays) {
      ASSERT_TRUE(std::isnan(actual[e]));
    } else {
      ASSERT_NEAR(actual[e], stays ? x[e] / 0.7 : 0, 2e-6) << e;
    }
  }
}

TEST(Dropout, IsTheIdentityForPZeroAndZeroForPOne) {
  const double inf = std::numeric_limits<double>::infinity();
  Values x = random_values(1000, 2);
  x[3] = inf;
  EXPECT_EQ(dropout<float>(x, 0).y, x);
  EXPECT_EQ(dropout<float>(x, 0).mask, std::vector<uint8_t>(1000, 1));
  x[4] = NAN;
  EXPECT_EQ(dropout<float>(x, 1).y, Values(1000, 0));
  EXPECT_EQ(dropout<double>(x, 1).mask, std::vector<uint8_t>(1000, 0));
}

TEST(Dropout, DropsTheShareItShould) {
  const Dropped result = dropout<float>(Values(200'000, 1), 0.3);
  const double kept = std::accumulate(result.mask.begin(), result.mask.end(), 0.0);
  EXPECT_NEAR(kept / 200'000, 0.7, 5 * std::sqrt(0.21 / 200'000));
}

TEST(Dropout, ScalesSixteenBitsInF32) {
  const Values x = random_values(1000, 5);
  const Dropped f32 = dropout<float>(x, 0.3), bf16 = dropout<bfloat16>(x, 0.3);
  EXPECT_EQ(bf16.mask, f32.mask);
  const float scale = float(1 / (1 - 0.3));
  Values expected;
  for (size_t e = 0; e < x.size(); ++e) {
    expected.push_back(f32.mask[e] ? bfloat16(bfloat16(float(x[e])) * scale) : 0.0f);
  }
  EXPECT_EQ(bf16.y, expected);
}

// Batches of 10, 64 and 7 draw their own masks, and the gradient uses that of its forward.
TEST(Dropout, SendsTheGradientThroughTheMask) {
  for (int64_t n : {10, 64, 7, 0}) {
    const Values ones(size_t(n), 1), dy = random_values(n, 3);
    const Dropped forward = dropout<float>(ones, 0.5, n);
    const Guarded<float> gradient({n}, dy), dx({n});
    run(kernels::DropoutBackward{
        .dy = gradient, .mask = Tensor::from(forward.mask, {n}), .dx = dx, .p = 0.5});
    Values expected;
    for (size_t i = 0; i < size_t(n); ++i) expected.push_back(dy[i] * forward.y[i]);
    EXPECT_EQ(dx.values(), expected);
  }
  const Guarded<float> dy({2}, {1, NAN}), dx({2});
  run(kernels::DropoutBackward{
      .dy = dy, .mask = Tensor::from<uint8_t>({0, 0}, {2}), .dx = dx, .p = 1});
  EXPECT_EQ(dx.values(), (Values{0, 0}));
}

TEST(Dropout, GivesTheSameBitsForAnyNumberOfThreads) {
  const Values x = random_values(100'003, 4);
  expect_same_for_any_threads([&] { return dropout<float>(x, 0.25).y; });
}

TEST(RandomFills, RefuseIntegers) {
  const Tensor y = Tensor::empty({2}, {.dtype = DType::i64});
  expect_error<ShapeError>(
      [&] {
        run(kernels::RandomUniform{.y = y, .step = step_of(0), .key = key});
        return 0;
      },
      "[random_uniform] runs in floating dtypes, not in i64");
}

}  // namespace
}  // namespace adret
