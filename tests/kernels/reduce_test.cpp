// Reductions over every set of dimensions, against loops in long double.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using kernels::ReduceOp;
using Values = std::vector<double>;

constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min,
                                ReduceOp::prod};

Shape kept_shape(const Shape& shape, uint32_t dims) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < shape.rank(); ++d) {
    if (!(dims >> d & 1)) sizes.push_back(shape[d]);
  }
  return Shape(sizes);
}

struct Expected {
  Values value, magnitude;  // magnitude: of the terms, which bounds the rounding errors of sums
};

Expected reference(ReduceOp op, const Values& x, const Shape& shape, uint32_t dims) {
  const Shape kept = kept_shape(shape, dims);
  std::vector<std::vector<double>> terms(size_t(kept.numel()));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i, place = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!(dims >> d & 1)) {
        place += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    terms[size_t(place)].push_back(x[size_t(i)]);
  }
  Expected expected;
  for (const auto& list : terms) {
    long double sum = 0, magnitude = 0, product = 1;
    for (double v : list) {
      sum += v;
      product *= v;
      magnitude += std::abs(v);
    }
    const double count = double(list.size());
    switch (op) {
      case ReduceOp::sum: expected.value.push_back(double(sum)); break;
      case ReduceOp::mean: expected.value.push_back(double(sum / count)); break;
      case ReduceOp::max: expected.value.push_back(*std::ranges::max_element(list)); break;
      case ReduceOp::min: expected.value.push_back(*std::ranges::min_element(list)); break;
      case ReduceOp::prod: expected.value.push_back(double(product)); break;
    }
    // Of a product, whose roundings add up, its own size as many times as it has factors.
    const double terms_size =
        op == ReduceOp::prod ? count * std::abs(double(product)) : double(magnitude);
    expected.magnitude.push_back(terms_size / (op == ReduceOp::mean ? count : 1));
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
    expect_same_for_any_threads([&] {
      const Guarded<float> y(kept_shape(test.shape, test.dims));
      run(kernels::Reduce{.x = x, .y = y, .dims = test.dims, .op = ReduceOp::sum});
      return y.exact();
    });
  }
}

TEST(Reduce, RefusesIntegers) {
  ADRET_CPU_ONLY("the error is that of the CPU's kernel");
  const Tensor x = Tensor::empty({2}, {.dtype = DType::i32}),
               y = Tensor::empty({}, {.dtype = DType::i32});
  expect_error<ShapeError>(
      [&] {
        run(kernels::Reduce{.x = x, .y = y, .dims = 1});
        return 0;
      },
      "[reduce] runs in floating dtypes, not in i32");
}

}  // namespace
}  // namespace adret
