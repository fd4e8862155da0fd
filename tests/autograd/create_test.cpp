// Tensors of numbers: what ranges and classes refuse, and what random ones promise.
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

TEST(Arange, HasAsManyNumbersAsFit) {
  EXPECT_EQ(arange(0, 1, 0.25).to_vector<float>(), (std::vector<float>{0, 0.25f, 0.5f, 0.75f}));
  EXPECT_EQ(arange(0, 1.01, 0.25).numel(), 5);
  EXPECT_EQ(arange(2, 2).shape(), (Shape{0}));
  EXPECT_EQ(arange(2, 0).shape(), (Shape{0}));
  expect_error<ShapeError>([] { return arange(0, 1, 0); },
                           "[arange] 0 to 1 in steps of 0 does not end");
  expect_error<ShapeError>([] { return arange(0, 1, 1, {.dtype = DType::boolean}); },
                           "[arange] dtype is boolean, wanted one of numbers");
}

TEST(Linspace, EndsWhereItShould) {
  const std::vector<float> x = linspace(0, 0.3, 11).to_vector<float>();
  EXPECT_EQ(x.front(), 0.0f);
  EXPECT_EQ(x.back(), 0.3f);
  EXPECT_EQ(linspace(5, 9, 1).to_vector<float>(), std::vector<float>{5});
  EXPECT_EQ(linspace(5, 9, 0).shape(), (Shape{0}));
}

TEST(Linspace, WantsADistanceThatIsANumber) {
  const TensorOptions wide{.dtype = DType::f64};
  expect_error<ShapeError>([&] { return linspace(-1.5e308, 1.5e308, 3, wide); },
                           "[linspace] the distance from -1.5e+308 to 1.5e+308 is not finite");
  expect_error<ShapeError>([] { return linspace(0, INFINITY, 3); }, "[linspace] the distance");
  expect_error<ShapeError>([] { return linspace(NAN, 1, 3); }, "[linspace] the distance");
}

TEST(OneHot, LeavesARowOfZerosForALabelOutside) {
  const Tensor y = one_hot(Tensor::from({1, -1, 3}, {3}), 3);
  EXPECT_EQ(y.dtype(), DType::f32);
  expect_values(y, {3, 3}, {0, 1, 0, 0, 0, 0, 0, 0, 0});
  expect_error<ShapeError>([] { return one_hot(Tensor::ones({2}), 3); },
                           "[one_hot] labels (2,) is f32, wanted i64");
  expect_error<ShapeError>(
      [] { return one_hot(Tensor::from({1}, {1}), int64_t(1) << 61); },
      "[one_hot] 2305843009213693952 classes, wanted at most 2147483648, which i32 labels count");
  expect_error<ShapeError>(
      [] { return one_hot(Tensor::zeros({1}, {.dtype = DType::i64}), int64_t(1) << 61); },
      "[one_hot] 2305843009213693952 classes, wanted at most 9007199254740992");
}

TEST(Rand, DrawsAnewWithEachCallAndTheSameAgainFromASeed) {
  random::manual_seed(3);
  const std::vector<float> first = rand({1000}).to_vector<float>(),
                           second = rand({1000}).to_vector<float>();
  EXPECT_NE(first, second);
  random::manual_seed(3);
  EXPECT_EQ(rand({1000}).to_vector<float>(), first);
  EXPECT_TRUE(std::ranges::all_of(first, [](float v) { return v >= 0 && v < 1; }));
  // The mean of 1000 uniform numbers has the deviation 0.0091.
  EXPECT_NEAR(std::accumulate(first.begin(), first.end(), 0.0) / 1000, 0.5, 0.04);
  expect_error<ShapeError>([] { return rand({2}, {.dtype = DType::i32}); },
                           "[rand] dtype is i32, wanted a floating one");
}

TEST(Randn, HasMeanZeroAndVarianceOne) {
  random::manual_seed(4);
  const std::vector<double> x = randn({20'000}, {.dtype = DType::f64}).to_vector<double>();
  double sum = 0, squares = 0;
  for (double v : x) {
    sum += v;
    squares += v * v;
  }
  // Deviations 0.007 and 0.01.
  EXPECT_NEAR(sum / 20'000, 0, 0.03);
  EXPECT_NEAR(squares / 20'000, 1, 0.04);
}

TEST(Randint, DrawsEveryIntegerAboutAsOften) {
  random::manual_seed(5);
  std::vector<int> counts(5);
  for (int64_t v : randint(-2, 3, {10'000}).to_vector<int64_t>()) {
    ASSERT_TRUE(v >= -2 && v < 3);
    ++counts[size_t(v + 2)];
  }
  for (int count : counts) EXPECT_NEAR(count, 2000, 160);  // deviation 40
  EXPECT_EQ(randint(7, 8, {3}, {.dtype = DType::u8}).to_vector<uint8_t>(),
            (std::vector<uint8_t>{7, 7, 7}));
  expect_error<ShapeError>([] { return randint(3, 3, {2}); },
                           "[randint] no integers from 3 to before 3");
}

TEST(Bernoulli, DrawsOnesWithTheirProbability) {
  random::manual_seed(6);
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor p = Tensor::full({10'000}, 0.25, {.dtype = dtype});
    EXPECT_EQ(bernoulli(p).dtype(), dtype);
    EXPECT_NEAR(sum(bernoulli(p).to(DType::f32)).item(), 2500, 180);  // deviation 43
  }
  EXPECT_EQ(bernoulli(Tensor::from<float>({0, 1, 0, 1}, {4})).to_vector<float>(),
            (std::vector<float>{0, 1, 0, 1}));
}

TEST(Bernoulli, WantsProbabilities) {
  const auto draw = [](double p) { return bernoulli(Tensor::from<float>({0.5f, float(p)}, {2})); };
  EXPECT_EQ(draw(0).to_vector()[1], 0);
  EXPECT_EQ(draw(1).to_vector()[1], 1);
  if (!Tensor::ones({1}).device().is_cpu()) return;  // there nothing waits for the values
  for (const double p : {-0.25, 1.25, double(NAN)}) {
    expect_error<ShapeError>([&] { return draw(p); }, "[bernoulli] p (2,) is");
  }
}

TEST(Randperm, HoldsEachNumberOnce) {
  random::manual_seed(7);
  std::vector<int64_t> order = randperm(100).to_vector<int64_t>();
  EXPECT_FALSE(std::ranges::is_sorted(order));
  std::ranges::sort(order);
  for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(order[size_t(i)], i);
  EXPECT_EQ(randperm(0).shape(), (Shape{0}));
}

}  // namespace
}  // namespace adret
