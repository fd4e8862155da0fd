// Sorting lines, against the standard library's stable sort.
#include <adret/autograd/ops/shape.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

bool is_less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

// Places in order, for lines of (outer, length, inner).
std::vector<int64_t> sorted_places(const std::vector<double>& x, const Shape& shape, int dim,
                                   bool descending) {
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  const int64_t length = shape[dim], lines = shape.numel() / std::max<int64_t>(1, length);
  std::vector<int64_t> result(x.size());
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t first = line / inner * length * inner + line % inner;
    const auto value = [&](int64_t i) { return x[size_t(first + i * inner)]; };
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
      return descending ? is_less(value(b), value(a)) : is_less(value(a), value(b));
    });
    for (int64_t i = 0; i < length; ++i) result[size_t(first + i * inner)] = order[size_t(i)];
  }
  return result;
}

template <class T>
void expect_sorted(const Shape& shape, int dim, const std::vector<double>& x, bool descending) {
  std::vector<T> typed;
  for (const double v : x) typed.push_back(T(v));
  const Tensor from = Tensor::from(typed, shape);
  const Tensor to = Tensor::empty(shape, {.dtype = dtype_of<T>});
  const Tensor places = Tensor::empty(shape, {.dtype = DType::i64});
  run(kernels::Sort{.x = from, .y = to, .indices = places, .dim = dim, .descending = descending});
  std::vector<double> rounded;
  for (const T v : typed) rounded.push_back(double(v));
  const std::vector<int64_t> expected = sorted_places(rounded, shape, dim, descending);
  ASSERT_EQ(places.to_vector<int64_t>(), expected);
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  const std::vector<T> y = to.to_vector<T>();
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t own = i / inner % shape[dim];
    const double wanted = rounded[size_t(i + (expected[size_t(i)] - own) * inner)];
    const double found = double(y[size_t(i)]);
    ASSERT_TRUE(found == wanted || (std::isnan(found) && std::isnan(wanted))) << "element " << i;
  }
}

TEST(Sort, DoesAsTheStandardLibrary) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
    Shape shape;
    const int rank = int(below(3)) + 1;
    for (int d = 0; d < rank; ++d) {
      shape = shape.inserted(d, below(3) ? below(8) + 1 : below(300));
    }
    if (shape.numel() > 20000) continue;
    const int dim = int(below(rank));
    std::vector<double> x = random_values(shape.numel(), seed);
    // Ties, and what floats have beside numbers.
    const double odd[] = {nan, inf, -inf, 0.0, -0.0, 0.5, -0.5, 0.5};
    for (double& v : x) {
      if (below(3) == 0) v = odd[below(8)];
    }
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_string(shape) + " dim " +
                 std::to_string(dim));
    expect_sorted<float>(shape, dim, x, below(2));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Sort, TakesEveryDtype) {
  std::vector<double> x;
  for (int64_t i = 0; i < 600; ++i) x.push_back(double(i * 37 % 101 - 50) * 1.25);
  for (const bool descending : {false, true}) {
    for (const auto& [shape, dim] : {std::pair{Shape{3, 200}, 1}, {Shape{300, 2}, 0}}) {
      expect_sorted<double>(shape, dim, x, descending);
      expect_sorted<float>(shape, dim, x, descending);
      expect_sorted<bfloat16>(shape, dim, x, descending);
      expect_sorted<float16>(shape, dim, x, descending);
      expect_sorted<int32_t>(shape, dim, x, descending);
      expect_sorted<int64_t>(shape, dim, x, descending);
      std::vector<double> bytes;
      for (const double v : x) bytes.push_back(std::floor(std::abs(v)));
      expect_sorted<uint8_t>(shape, dim, bytes, descending);
    }
  }
}

// About the lengths where kernels change, with as many ties as numbers, and NaN.
TEST(Sort, TakesLinesOfAnyLength) {
  for (const int64_t length : {1, 2, 31, 32, 33, 64, 65, 192, 500, 1000, 1023, 1024, 1025}) {
    std::vector<double> x = random_values(3 * length, uint32_t(length));
    for (size_t i = 0; i < x.size(); ++i) {
      if (i % 3 == 0) x[i] = std::round(4 * x[i]) / 4;
      if (i % 7 == 0) x[i] = i % 2 ? nan : -0.0;
    }
    std::vector<double> whole;
    for (const double v : x) whole.push_back(std::isnan(v) ? 7 : std::round(20 * v));
    SCOPED_TRACE(length);
    for (const bool descending : {false, true}) {
      for (const auto& [shape, dim] : {std::pair{Shape{3, length}, 1}, {Shape{length, 3}, 0}}) {
        expect_sorted<double>(shape, dim, x, descending);
        expect_sorted<float>(shape, dim, x, descending);
        expect_sorted<bfloat16>(shape, dim, x, descending);
        expect_sorted<float16>(shape, dim, x, descending);
        expect_sorted<int32_t>(shape, dim, whole, descending);
        expect_sorted<int64_t>(shape, dim, whole, descending);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Sort, OrdersLargeIntegers) {
  const int64_t least = std::numeric_limits<int64_t>::min(), most = -(least + 1);
  const Tensor x = Tensor::from<int64_t>({most, 0, least, most - 1, -1, 1}, {6});
  const Tensor y = Tensor::empty({6}, {.dtype = DType::i64});
  run(kernels::Sort{.x = x, .y = y});
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{least, -1, 0, 1, most - 1, most}));
}

TEST(Sort, GivesAsManyOfTheFirstAsThereIsRoomFor) {
  for (const auto& [shape, dim] : {std::pair{Shape{7, 100}, 1}, {Shape{3, 90, 5}, 1}}) {
    const Tensor x = Tensor::from(random_values(shape.numel(), 3), shape).to(DType::f32);
    const Tensor all = Tensor::empty(shape);
    const Tensor all_places = Tensor::empty(shape, {.dtype = DType::i64});
    for (const int64_t count : {0, 1, 5, 12, 60}) {
      const Shape shorter = shape.with(dim, count);
      const Tensor first = Tensor::empty(shorter);
      const Tensor places = Tensor::empty(shorter, {.dtype = DType::i64});
      for (const bool descending : {false, true}) {
        run(kernels::Sort{
            .x = x, .y = all, .indices = all_places, .dim = dim, .descending = descending});
        run(kernels::Sort{
            .x = x, .y = first, .indices = places, .dim = dim, .descending = descending});
        EXPECT_EQ(first.to_vector<float>(), slice(all, dim, 0, count).to_vector<float>());
        EXPECT_EQ(places.to_vector<int64_t>(),
                  slice(all_places, dim, 0, count).to_vector<int64_t>());
      }
    }
  }
}

TEST(Sort, SortsLongLines) {
  expect_sorted<float>({2, 50000}, 1, random_values(100000, 5), true);
  expect_sorted<float>({50000, 2}, 0, random_values(100000, 6), false);
}

}  // namespace
}  // namespace adret
