// Reductions over every set of dimensions, against loops in long double.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using kernels::ReduceOp;
using Values = std::vector<double>;

constexpr ReduceOp statistics[] = {ReduceOp::norm, ReduceOp::var, ReduceOp::logsumexp};
constexpr ReduceOp all_ops[] = {ReduceOp::sum,  ReduceOp::mean, ReduceOp::max, ReduceOp::min,
                                ReduceOp::prod, ReduceOp::norm, ReduceOp::var, ReduceOp::logsumexp};

Shape kept_shape(const Shape& shape, uint32_t dims) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!(dims >> d & 1)) sizes.push_back(shape[d]);
  }
  return Shape(sizes);
}

// Each element's output.
std::vector<size_t> places_of(const Shape& shape, uint32_t dims) {
  std::vector<size_t> places;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!(dims >> d & 1)) {
        place += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    places.push_back(size_t(place));
  }
  return places;
}

struct Sums {
  long double sum = 0, magnitude = 0, product = 1, squares = 0, exps = 0, distances = 0;
  double count = 0;
};
std::vector<Sums> sums_of(const Values& x, const Shape& shape, uint32_t dims) {
  std::vector<Sums> sums(size_t(kept_shape(shape, dims).numel()));
  const std::vector<size_t> places = places_of(shape, dims);
  for (size_t i = 0; i < x.size(); ++i) {
    Sums& at = sums[places[i]];
    at.sum += x[i];
    at.magnitude += std::abs(x[i]);
    at.product *= x[i];
    at.squares += x[i] * x[i];
    at.exps += std::exp(static_cast<long double>(x[i]));
    ++at.count;
  }
  for (size_t i = 0; i < x.size(); ++i) {
    Sums& at = sums[places[i]];
    const long double distance = x[i] - at.sum / at.count;
    at.distances += distance * distance;
  }
  return sums;
}

struct Expected {
  Values value, magnitude;  // magnitude: of the terms, which bounds the rounding errors of sums
};

Expected reference(ReduceOp op, const Values& x, const Shape& shape, uint32_t dims) {
  Values extremes(size_t(kept_shape(shape, dims).numel()), op == ReduceOp::max ? -2 : 2);
  const std::vector<size_t> places = places_of(shape, dims);
  for (size_t i = 0; i < x.size(); ++i) {
    double& best = extremes[places[i]];
    best = op == ReduceOp::max ? std::max(best, x[i]) : std::min(best, x[i]);
  }
  Expected expected;
  const auto add = [&](long double value, long double magnitude) {
    expected.value.push_back(double(value));
    expected.magnitude.push_back(double(magnitude));
  };
  const std::vector<Sums> sums = sums_of(x, shape, dims);
  for (size_t i = 0; i < sums.size(); ++i) {
    const Sums& at = sums[i];
    switch (op) {
      case ReduceOp::sum: add(at.sum, at.magnitude); break;
      case ReduceOp::mean: add(at.sum / at.count, at.magnitude / at.count); break;
      case ReduceOp::max:
      case ReduceOp::min: add(extremes[i], 0); break;
      // Roundings add up: as many times its own size as it has factors.
      case ReduceOp::prod: add(at.product, at.count * std::abs(at.product)); break;
      // Sums of squares only grow, and so do their roundings.
      case ReduceOp::norm: add(std::sqrt(at.squares), 8 * std::sqrt(at.squares)); break;
      case ReduceOp::var: add(at.distances / at.count, 8 * at.squares / at.count); break;
      case ReduceOp::logsumexp: add(std::log(at.exps), 8); break;  // exp errs by 2 units
    }
  }
  return expected;
}

template <class T>
void expect_matches(ReduceOp op, const Shape& shape, uint32_t dims) {
  Values x = random_values(shape.numel(), 1);
  if (op == ReduceOp::prod) {  // factors about 1, so that products of many stay numbers
    for (double& v : x) v = double(float(1 + v / 64));
  }
  const Guarded<T> in(shape, x), out(kept_shape(shape, dims));
  run(kernels::Reduce{.x = in, .y = out, .dims = dims, .op = op});
  const Expected expected = reference(op, x, shape, dims);
  const Values actual = out.values();
  const double unit = test_device() == TestDevice::cuda
                          ? 4 * double(std::numeric_limits<T>::epsilon())
                          : (sizeof(T) == 4 ? 0x1p-24 : 1e-15);
  for (size_t i = 0; i < actual.size(); ++i) {
    // The CPU keeps sums in f64: what is left is the rounding of the result and, of f32, half a
    // unit of each pair's sum, of f64 a few units. The GPU keeps them in T: a few units of its
    // last place.
    const bool is_sum = op != ReduceOp::max && op != ReduceOp::min;
    const double tolerance =
        is_sum ? std::abs(expected.value[i]) * double(std::numeric_limits<T>::epsilon()) +
                     expected.magnitude[i] * unit
               : 0;
    ASSERT_NEAR(actual[i], expected.value[i], tolerance)
        << kernels::to_string(op) << " of " << to_string(shape) << " dims " << dims << ", element "
        << i;
  }
  EXPECT_TRUE(out.guards_intact());
}

TEST(Reduce, MatchesTheDefinitionForEverySetOfDimensions) {
  for (const Shape& shape :
       {Shape{3, 4, 5, 2, 3, 2}, Shape{7, 33, 10}, Shape{1, 6, 1, 40}, Shape{5, 1, 4, 1}}) {
    for (uint32_t dims = 0; dims < 1u << shape.rank(); ++dims) {
      for (ReduceOp op : all_ops) {
        expect_matches<float>(op, shape, dims);
        expect_matches<double>(op, shape, dims);
      }
    }
  }
}

TEST(Reduce, MatchesTheDefinitionForLargeAndNarrowTensors) {
  struct Case {
    Shape shape;
    uint32_t dims;
  };
  const Case cases[] = {
      {{100'003}, 1},        // all, several chunks
      {{5, 40'001}, 2},      // long rows
      {{20'000, 6}, 1},      // narrow columns
      {{20'000, 31}, 1},     //
      {{9, 5'000}, 1},       // wide columns
      {{300, 257}, 1},       // one column more than a block
      {{4, 5'000, 12}, 2},   // the middle
      {{40, 10, 30, 8}, 5},  // every other
      {{9'000, 64}, 1},      // columns in vectors, several chunks
      {{2, 9'000, 24}, 2},   // in several places
      {{2, 40'000}, 1},      // two rows
      {{8, 17, 1'000}, 2},   // few rows
      {{2'000, 5, 3}, 2},    // many small matrices
      {{33'000, 2}, 2},      // many short rows
      {{600, 1'025}, 2},     // rows off the alignment of vectors
      {{64, 10}, 2},         // logits
      {{}, 0},               // a scalar
  };
  for (const Case& test : cases) {
    for (ReduceOp op : all_ops) {
      expect_matches<float>(op, test.shape, test.dims);
      expect_matches<double>(op, test.shape, test.dims);
    }
  }
}

template <class T>
T reduce_all(ReduceOp op, const std::vector<T>& values) {
  const Tensor x = Tensor::from(values, {int64_t(values.size())});
  Tensor y = Tensor::empty({}, {.dtype = dtype_of<T>});
  run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = op});
  return y.template item<T>();
}

template <class T>
void expect_backward_matches(ReduceOp op, const Shape& shape, uint32_t dims) {
  const Shape kept = kept_shape(shape, dims);
  const Values x = random_values(shape.numel(), 1), dy = random_values(kept.numel(), 2);
  const std::vector<Sums> sums = sums_of(x, shape, dims);
  const std::vector<size_t> places = places_of(shape, dims);
  Values y, mean, expected;
  for (const Sums& at : sums) {
    y.push_back(T(op == ReduceOp::norm ? std::sqrt(at.squares) : std::log(at.exps)));
    mean.push_back(T(at.sum / at.count));
  }
  const double correction = 0.5;
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t at = places[i];
    expected.push_back(dy[at] * (op == ReduceOp::norm ? x[i] / y[at]
                                 : op == ReduceOp::var
                                     ? 2 * (x[i] - mean[at]) / (sums[at].count - correction)
                                     : std::exp(x[i] - y[at])));
  }
  const bool of_mean = op == ReduceOp::var;
  const Guarded<T> in(shape, x), out(kept, y), means(kept, mean), slope(kept, dy), dx(shape);
  kernels::ReduceBackward call{.x = in, .dy = slope, .dx = dx, .dims = dims, .op = op};
  (of_mean ? call.mean : call.y) = of_mean ? means : out;
  call.correction = correction;
  run(call);
  const double unit = double(std::numeric_limits<T>::epsilon());
  expect_close(dx.values(), expected, {.relative = 16 * unit, .absolute = 4 * unit},
               to_string(Kernel(call)));
  EXPECT_TRUE(dx.guards_intact());
}

TEST(Reduce, GradientsOfStatisticsMatchTheirDefinitionForEverySetOfDimensions) {
  for (const Shape& shape :
       {Shape{3, 4, 5, 2, 3, 2}, Shape{7, 33, 10}, Shape{3, 70, 64}, Shape{1, 6, 1, 40}, Shape{}}) {
    for (uint32_t dims = 0; dims < 1u << shape.rank(); ++dims) {
      for (const ReduceOp op : statistics) {
        expect_backward_matches<float>(op, shape, dims);
        expect_backward_matches<double>(op, shape, dims);
      }
    }
  }
}

// The mean's rounding would be a hundred times this variance.
TEST(Reduce, VarianceBesideALargeMeanComesWithTheMean) {
  struct Case {
    Shape shape;
    uint32_t dims;
  };
  for (const Case& test :
       {Case{{6}, 1}, Case{{40, 64}, 2}, Case{{3, 70'000}, 2}, Case{{9'000, 7}, 1},
        Case{{2, 3'000, 12}, 2}, Case{{40, 10, 30, 8}, 5}}) {
    Values x = random_values(test.shape.numel(), 3);
    for (double& v : x) v = double(float(4096 + v));
    const std::vector<Sums> sums = sums_of(x, test.shape, test.dims);
    const Shape kept = kept_shape(test.shape, test.dims);
    const Guarded<float> in(test.shape, x), y(kept), mean(kept);
    kernels::Reduce call{.x = in, .y = y, .mean = mean, .dims = test.dims, .op = ReduceOp::var};
    call.correction = 1;
    run(call);
    Values variances, means;
    for (const Sums& at : sums) {
      variances.push_back(double(at.distances / (at.count - 1)));
      means.push_back(double(at.sum / at.count));
    }
    const double relative = test_device() == TestDevice::cuda ? 1e-3 : 1e-6;
    expect_close(y.values(), variances, {.relative = relative}, "variances");
    expect_close(mean.values(), means, {.relative = 1e-6}, "means");
    EXPECT_TRUE(y.guards_intact() && mean.guards_intact());
  }
}

TEST(Reduce, LogSumExpTakesTheMaximumOffAcrossChunks) {
  for (const int64_t n : {5, 3'000, 200'000}) {
    Values x(size_t(n), -INFINITY);
    const auto result = [&] {
      const Guarded<float> in({n}, x), y({});
      run(kernels::Reduce{.x = in, .y = y, .dims = 1, .op = ReduceOp::logsumexp});
      return y.values()[0];
    };
    EXPECT_EQ(result(), -INFINITY);
    x[1] = -1000;
    x[size_t(n) - 1] = -1000;
    EXPECT_FLOAT_EQ(float(result()), float(-1000 + std::log(2)));
    x[size_t(n) / 2] = 1000;
    EXPECT_EQ(result(), 1000);
    x[size_t(n) / 2] = INFINITY;
    EXPECT_EQ(result(), INFINITY);
    x[0] = NAN;
    EXPECT_TRUE(std::isnan(result()));
  }
}

TEST(Reduce, LosesNothingOverTenMillionOnes) {
  const std::vector<float> ones(10'000'000, 1.0f);
  EXPECT_EQ(reduce_all(ReduceOp::mean, ones), 1.0f);
  EXPECT_EQ(reduce_all(ReduceOp::sum, ones), 1e7f);
}

// Cubes have more bits than a pair's sum, which alone is rounded to f32.
TEST(Reduce, SumsOfF32AreRightToHalfAUnitOfThePairs) {
  ADRET_CPU_ONLY("a GPU's bound is wider");
  for (const int64_t n : {64, 1'000, 200'000}) {
    Values x = random_values(n, 5);
    double total = 0, magnitude = 0;
    for (double& v : x) {
      v = double(float(v * v * v));
      total += v;
      magnitude += std::abs(v);
    }
    const Guarded<float> in({n}, x);
    const Guarded<float> out({});
    run(kernels::Reduce{.x = in, .y = out, .dims = 1, .op = ReduceOp::sum});
    EXPECT_NEAR(out.values()[0], total, 0x1p-24 * (magnitude + std::abs(total)) + 1e-12);
  }
}

TEST(Reduce, LetsNanWinWhereverItStands) {
  for (size_t n : {1, 3, 10, 200, 50'000}) {
    for (size_t at : {size_t(0), n / 2, n - 1}) {
      std::vector<float> x(n, 1.0f);
      x[at] = NAN;
      for (ReduceOp op : all_ops) {
        EXPECT_TRUE(std::isnan(reduce_all(op, x)))
            << kernels::to_string(op) << " " << n << " " << at;
      }
    }
  }
}

TEST(Reduce, HandlesInfinities) {
  EXPECT_EQ(reduce_all<float>(ReduceOp::sum, {INFINITY, 1}), INFINITY);
  EXPECT_TRUE(std::isnan(reduce_all<float>(ReduceOp::sum, {INFINITY, -INFINITY})));
  EXPECT_EQ(reduce_all<float>(ReduceOp::max, {-INFINITY, -INFINITY}), -INFINITY);
  EXPECT_EQ(reduce_all<float>(ReduceOp::min, {INFINITY, INFINITY}), INFINITY);
}

TEST(Reduce, SumsNothingToZeroItsMeanToNanAndItsProductToOne) {
  const Guarded<float> x({0, 3}), y({3}), none({0});
  run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = ReduceOp::sum});
  EXPECT_EQ(y.values(), (Values{0, 0, 0}));
  run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = ReduceOp::mean});
  for (double v : y.values()) EXPECT_TRUE(std::isnan(v));
  run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = ReduceOp::prod});
  EXPECT_EQ(y.values(), (Values{1, 1, 1}));
  run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = ReduceOp::norm});
  EXPECT_EQ(y.values(), (Values{0, 0, 0}));
  run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = ReduceOp::logsumexp});
  EXPECT_EQ(y.values(), (Values{-INFINITY, -INFINITY, -INFINITY}));
  const Guarded<float> mean({3});
  run(kernels::Reduce{.x = x, .y = y, .mean = mean, .dims = 1, .op = ReduceOp::var});
  for (double v : y.values()) EXPECT_TRUE(std::isnan(v));
  for (double v : mean.values()) EXPECT_TRUE(std::isnan(v));
  run(kernels::Reduce{.x = x, .y = none, .dims = 2, .op = ReduceOp::sum});
  EXPECT_TRUE(none.guards_intact() && y.guards_intact());
}

TEST(Reduce, GivesTheSameBitsForAnyNumberOfThreads) {
  struct Case {
    Shape shape;
    uint32_t dims;
  };
  for (const Case& test :
       {Case{{200'000}, 1}, Case{{20'000, 10}, 1}, Case{{3, 70'000}, 2}, Case{{50, 40, 100}, 5}}) {
    const Guarded<float> x(test.shape, random_values(test.shape.numel(), 2));
    for (const ReduceOp op : all_ops) {
      expect_same_for_any_threads([&] {
        const Guarded<float> y(kept_shape(test.shape, test.dims));
        run(kernels::Reduce{.x = x, .y = y, .dims = test.dims, .op = op});
        return y.exact();
      });
    }
  }
}

}  // namespace
}  // namespace adret
