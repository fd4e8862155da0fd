// Kernels along one dimension: extremes with their places, and scans, against plain loops.
#include <adret/core/kernels/kernel.h>
#include <adret/core/kernels/scan.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;
using Places = std::vector<int64_t>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

struct Case {
  Shape shape;
  int dim;
};
const Case cases[] = {
    {{1}, 0},
    {{7}, 0},
    {{5'003}, 0},  // one line
    {{300, 10}, 1},
    {{3, 600}, 1},
    {{3, 8'192}, 1},  // rows
    {{70, 513}, 1},
    {{2, 1'031}, 1},  // off the alignment of vectors
    {{10, 300}, 0},
    {{600, 3}, 0},
    {{4'099, 2}, 0},      // columns
    {{4, 33, 1'100}, 1},  // many columns
    {{2, 40, 3}, 1},
    {{2, 1'025, 5}, 1},
    {{1, 4, 1}, 1},  // the middle
    {{0, 3}, 1},
    {{3, 5, 0}, 1},  // nothing
};

int64_t inner_size(const Case& test) {
  int64_t inner = 1;
  for (int d = test.dim + 1; d < test.shape.rank(); ++d) inner *= test.shape[d];
  return inner;
}

// f(place of the first element) for every line, in the order of the other dimensions.
void for_lines(const Case& test, const std::function<void(size_t)>& f) {
  const int64_t inner = inner_size(test), step = inner * test.shape[test.dim];
  for (int64_t first = 0; first < test.shape.numel(); first += step) {
    for (int64_t i = 0; i < inner; ++i) f(size_t(first + i));
  }
}

// -- extremes ----------------------------------------------------------------------------------

TEST(Extreme, IsTheFirstLargestOrSmallestOfEachLine) {
  for (const Case& test : cases) {
    // Few different values, so that most are met again.
    const Values x = eighths(test.shape.numel(), 7, 3, 23);
    const auto inner = size_t(inner_size(test)), length = size_t(test.shape[test.dim]);
    for (bool largest : {true, false}) {
      Values expected;
      Places places;
      for_lines(test, [&](size_t first) {
        size_t best = 0;
        for (size_t i = 1; i < length; ++i) {
          const double later = x[first + i * inner], now = x[first + best * inner];
          if (largest ? later > now : later < now) best = i;
        }
        expected.push_back(x[first + best * inner]);
        places.push_back(int64_t(best));
      });
      const Guarded<float> in(test.shape, x), values(test.shape.without(test.dim));
      const Tensor indices = Tensor::empty(test.shape.without(test.dim), {.dtype = DType::i64});
      run(kernels::Extreme{
          .x = in, .values = values, .indices = indices, .dim = test.dim, .largest = largest});
      EXPECT_EQ(values.values(), expected) << to_string(test.shape);
      EXPECT_EQ(indices.to_vector<int64_t>(), places) << to_string(test.shape);
      EXPECT_TRUE(values.guards_intact());
    }
  }
}

Places places_of(const Tensor& x, bool largest) {
  const Tensor indices = Tensor::empty(x.shape().without(1), {.dtype = DType::i64});
  run(kernels::Extreme{.x = x, .indices = indices, .dim = 1, .largest = largest});
  return indices.to_vector<int64_t>();
}

TEST(Extreme, LetsTheFirstNanWinWhereverItStands) {
  const Tensor x = Tensor::from<double>({1, nan, inf, 3, nan, 2, nan, -inf, 0, 0, 0, 0}, {3, 4});
  EXPECT_EQ(places_of(x, true), (Places{1, 0, 0}));
  EXPECT_EQ(places_of(x, false), (Places{1, 0, 0}));
  for (size_t n : {3, 70, 1'000, 6'000}) {
    for (size_t at : {size_t(0), n / 2, n - 1}) {
      std::vector<float> row(n, 1.0f);
      row[at] = NAN;
      row.back() = NAN;
      EXPECT_EQ(places_of(Tensor::from(row, {1, int64_t(n)}), true), Places{int64_t(at)});
    }
  }
}

TEST(Extreme, ChoosesAmongInfinitiesAndIntegers) {
  const Tensor x = Tensor::from({-inf, -inf, inf, -inf}, {2, 2});
  EXPECT_EQ(places_of(x, true), (Places{0, 0}));
  EXPECT_EQ(places_of(x, false), (Places{0, 1}));
  constexpr int64_t low = INT64_MIN, high = INT64_MAX;
  EXPECT_EQ(places_of(Tensor::from({low, high, high - 1, low + 1}, {2, 2}), true), (Places{1, 0}));
  EXPECT_EQ(places_of(Tensor::from<int32_t>({INT32_MIN, 5, 5, 4}, {2, 2}), false), (Places{0, 1}));
}

TEST(Extreme, GivesTheSameForAnyNumberOfThreads) {
  const Guarded<float> x({300, 700}, random_values(210'000, 2));
  expect_same_for_any_threads([&] {
    const Guarded<float> values({700});
    const Tensor indices = Tensor::empty({700}, {.dtype = DType::i64});
    run(kernels::Extreme{.x = x, .values = values, .indices = indices, .dim = 0});
    return std::pair(values.values(), indices.to_vector<int64_t>());
  });
}

// -- scans -------------------------------------------------------------------------------------

enum class Kind { sum, product, recurrence };

template <class T>
void expect_scan(const Case& test, Kind kind, bool reverse) {
  Values a = random_values(test.shape.numel(), 3), b = random_values(test.shape.numel(), 4);
  for (double& v : a) v = double(float(kind == Kind::product ? 1 + v / 64 : v));
  Values expected(a.size());
  const auto inner = size_t(inner_size(test)), length = size_t(test.shape[test.dim]);
  for_lines(test, [&](size_t first) {
    double state = kind == Kind::product ? 1 : 0;
    for (size_t k = 0; k < length; ++k) {
      const size_t at = first + (reverse ? length - 1 - k : k) * inner;
      state = (kind == Kind::sum ? 1 : a[at]) * state + (kind == Kind::product ? 0 : b[at]);
      expected[at] = state;
    }
  });
  const Guarded<T> factors(test.shape, a), terms(test.shape, b), out(test.shape);
  run_custom(kernels::Scan{.dim = test.dim, .reverse = reverse},
             {kind != Kind::sum ? Tensor(factors) : Tensor(),
              kind != Kind::product ? Tensor(terms) : Tensor()},
             {out});
  // All is kept in f64, in another order: what is left is the rounding of the result, and roundings
  // of f64 in sums of up to a hundred or so.
  const double unit = double(std::numeric_limits<T>::epsilon());
  expect_close(out.values(), expected, {.relative = unit + 1e-11, .absolute = 1e-11},
               to_string(test.shape));
  EXPECT_TRUE(out.guards_intact());
}

TEST(Scan, MatchesTheDefinitionInBothDirections) {
  for (const Case& test : cases) {
    for (Kind kind : {Kind::sum, Kind::product, Kind::recurrence}) {
      for (bool reverse : {false, true}) {
        expect_scan<float>(test, kind, reverse);
        expect_scan<double>(test, kind, reverse);
      }
    }
  }
}

Values scanned(const Values& a, const Values& b) {
  const Shape shape{int64_t(std::max(a.size(), b.size()))};
  const Guarded<float> y(shape);
  const Guarded<float> factors(a.empty() ? Shape{0} : shape, a),
      terms(b.empty() ? Shape{0} : shape, b);
  run_custom(kernels::Scan{},
             {a.empty() ? Tensor() : Tensor(factors), b.empty() ? Tensor() : Tensor(terms)}, {y});
  return y.values();
}

TEST(Scan, CarriesZerosInfinitiesAndNan) {
  expect_close(scanned({2, 0, 3, inf}, {}), {2, 0, 0, nan}, {}, "product");
  expect_close(scanned({2, inf, 3, -1}, {}), {2, inf, inf, -inf}, {}, "product");
  expect_close(scanned({}, {1, inf, 2, -inf, 1}), {1, inf, inf, nan, nan}, {}, "sum");
  expect_close(scanned({}, {1, nan, 2}), {1, nan, nan}, {}, "sum");
  expect_close(scanned({5, inf, 2, 0}, {0, 0, 3, 4}), {0, 0, 3, 4}, {}, "recurrence");
  // Long enough for blocks of threads: the factors' product overflows, the states are 0 until the
  // end.
  Values factors(3'000, 100), terms(3'000, 0), expected(3'000, 0);
  terms.back() = expected.back() = 1;
  EXPECT_EQ(scanned(factors, terms), expected);
}

TEST(Scan, GivesTheSameBitsForAnyNumberOfThreads) {
  const Guarded<float> b({300, 700}, random_values(210'000, 5));
  for (int dim : {0, 1}) {
    expect_same_for_any_threads([&] {
      const Guarded<float> y({300, 700});
      run_custom(kernels::Scan{.dim = dim}, {Tensor(), b}, {y});
      return y.exact();
    });
  }
}

}  // namespace
}  // namespace adret
