// Softmax and its logarithm against loops in f64.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

// f(places) for every line along `dim`.
template <class F>
void for_lines(const Shape& shape, int dim, F f) {
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  const int64_t length = shape[dim];
  if (length == 0) return;
  for (int64_t line = 0; line < shape.numel() / length; ++line) {
    std::vector<size_t> places;
    for (int64_t i = 0; i < length; ++i) {
      places.push_back(size_t(line / inner * length * inner + i * inner + line % inner));
    }
    f(places);
  }
}

Values softmax(const Values& x, const Shape& shape, int dim, bool log) {
  Values y(x.size());
  for_lines(shape, dim, [&](const std::vector<size_t>& places) {
    long double sum = 0;
    double largest = x[places[0]];
    for (size_t p : places) largest = std::max(largest, x[p]);
    for (size_t p : places) sum += std::exp(x[p] - largest);
    for (size_t p : places) {
      y[p] = log ? x[p] - largest - std::log(double(sum)) : std::exp(x[p] - largest) / double(sum);
    }
  });
  return y;
}

Values softmax_backward(const Values& y, const Values& dy, const Shape& shape, int dim, bool log) {
  Values dx(y.size());
  for_lines(shape, dim, [&](const std::vector<size_t>& places) {
    double sum = 0;
    for (size_t p : places) sum += log ? dy[p] : dy[p] * y[p];
    for (size_t p : places) dx[p] = log ? dy[p] - std::exp(y[p]) * sum : y[p] * (dy[p] - sum);
  });
  return dx;
}

struct Case {
  Shape shape;
  int dim;
};
const Case cases[] = {{{64, 10}, 1},   {{3, 1000}, 1},   {{5}, 0},       {{7, 1}, 1},
                      {{2, 10, 9}, 1}, {{6, 300}, 0},    {{3, 4, 5}, 0}, {{2, 3, 4}, 2},
                      {{1, 5000}, 1},  {{500, 33}, 1},   {{0, 10}, 1},   {{4, 0}, 1},
                      {{3, 0, 2}, 1},  {{2, 7, 1, 3}, 1}};

template <class T>
void expect_matches(const Case& test, bool log, Tolerance tolerance) {
  Values x = random_values(test.shape.numel(), 1), dy = random_values(test.shape.numel(), 2);
  for (double& v : x) v *= 8;
  const Guarded<T> in(test.shape, x), y(test.shape), grad(test.shape, dy), dx(test.shape);
  run(kernels::SoftmaxForward{.x = in, .y = y, .dim = test.dim, .log = log});
  const std::string what = to_string(test.shape) + (log ? " log" : "");
  expect_close(y.values(), softmax(x, test.shape, test.dim, log), tolerance, what);
  run(kernels::SoftmaxBackward{.y = y, .dy = grad, .dx = dx, .dim = test.dim, .log = log});
  // The sum over a line of up to 5000 is one more rounding of its size.
  expect_close(dx.values(), softmax_backward(y.values(), dy, test.shape, test.dim, log),
               {tolerance.relative, 10 * tolerance.absolute}, what + " backward");
  EXPECT_TRUE(y.guards_intact() && dx.guards_intact());
}

TEST(Softmax, MatchesTheDefinitionAlongAnyDimension) {
  for (const Case& test : cases) {
    for (bool log : {false, true}) {
      expect_matches<float>(test, log,
                            {.relative = 1e-6, .absolute = 1e-6});  // exp: 2 ulp; logs to 20
      expect_matches<double>(test, log, {.relative = 1e-14, .absolute = 1e-14});
    }
  }
}

TEST(Softmax, TakesLogitsOfAnySize) {
  const Guarded<float> x({3, 2}, {1000, -1000, 88, 89, -INFINITY, 0}), y({3, 2});
  run(kernels::SoftmaxForward{.x = x, .y = y, .dim = 1});
  // By hand: exp(-2000) is 0; 1 / (1 + e) and e / (1 + e).
  expect_close(y.values(), {1, 0, 0.268941421, 0.731058579, 0, 1}, {.relative = 1e-6}, "softmax");
  run(kernels::SoftmaxForward{.x = x, .y = y, .dim = 1, .log = true});
  const double inf = std::numeric_limits<double>::infinity();
  expect_close(y.values(), {0, -2000, -1.31326169, -0.313261688, -inf, 0}, {.relative = 1e-6},
               "log");
}

TEST(Softmax, KeepsNanInItsOwnLine) {
  const Guarded<float> x({2, 3}, {1, NAN, 2, 1, 1, 1}), y({2, 3});
  run(kernels::SoftmaxForward{.x = x, .y = y, .dim = 1});
  const Values values = y.values();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::isnan(values[i]));
    EXPECT_NEAR(values[i + 3], 1 / 3.0, 1e-7);
  }
}

TEST(Softmax, GivesTheSameBitsForAnyNumberOfThreads) {
  for (int dim : {0, 1}) {
    const Shape shape{300, 400};
    const Guarded<float> x(shape, random_values(shape.numel(), 3));
    expect_same_for_any_threads([&] {
      const Guarded<float> y(shape), dx(shape);
      run(kernels::SoftmaxForward{.x = x, .y = y, .dim = dim});
      run(kernels::SoftmaxBackward{.y = y, .dy = x, .dx = dx, .dim = dim});
      return std::vector{y.exact(), dx.exact()};
    });
  }
}

}  // namespace
}  // namespace adret
