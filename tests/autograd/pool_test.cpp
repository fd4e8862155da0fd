// Pooling: values and gradients of PyTorch, output sizes, padding, ties and refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Values = std::vector<double>;
using Pool = Tensor (*)(const Tensor&, Size2, const Pool2dOptions&);

struct PoolCase {
  const char* name;
  Pool pool;
  Size2 kernel;
  Pool2dOptions options;
  Shape y;
  Values out, dx;
};

// Of sequence({1, 5, 4, 1}); values: PyTorch 1.13 in f64, the output's gradient sequence(y, 3).
const PoolCase pytorch_cases[] = {
    {"max 2x2",
     max_pool2d,
     2,
     {},
     {1, 2, 2, 1},
     {1.046875, 0.734375, 1.359375, 0.515625},
     {0, 0, -0.328125, 0, 0, -1.484375, 0, 0, 0.828125, 0, -1.171875, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"max with overlap and padding",
     max_pool2d,
     3,
     {.stride = 2, .padding = 1},
     {1, 3, 2, 1},
     {1.046875, 1.046875, 1.359375, 1.046875, 1.140625, 1.453125},
     {0, 0, 0, 0, 0, -2.984375, 0, 0, 0.828125, 0, 0, 0, 0, 0, 0, 0, -0.015625, 0, 0, 1.140625}},
    {"max with different dimensions",
     max_pool2d,
     {3, 2},
     {.stride = {1, 2}, .padding = {1, 0}},
     {1, 5, 2, 1},
     {1.046875, 0.734375, 1.359375, 0.734375, 1.359375, 0.515625, 1.359375, 1.453125, 1.140625,
      1.453125},
     {0,        0, -1.5, 0, 0, -1.484375, 0,        0, -0.046875, 0,
      1.140625, 0, 0,    0, 0, 0,         1.453125, 0, 0,         -0.25}},
    {"max in ceil mode",
     max_pool2d,
     2,
     {.padding = 1, .ceil_mode = true},
     {1, 3, 3, 1},
     {-1.578125, 0.734375, -1.265625, 1.359375, 1.046875, 0.203125, 1.140625, 0.828125, 1.453125},
     {-1.484375, 0, -0.328125, 0.828125, 0, -0.015625, 0,         1.140625, -1.171875, 0,
      0,         0, 0,         0.296875, 0, 0,         -0.859375, 0,        0,         1.453125}},
    {"average 2x2",
     avg_pool2d,
     2,
     {},
     {1, 2, 2, 1},
     {-0.265625, -0.3203125, 0.3046875, -0.5390625},
     {-0.37109375, -0.37109375, -0.08203125, -0.08203125, -0.37109375,
      -0.37109375, -0.08203125, -0.08203125, 0.20703125,  0.20703125,
      -0.29296875, -0.29296875, 0.20703125,  0.20703125,  -0.29296875,
      -0.29296875, 0,           0,           0,           0}},
    {"average that counts the padding",
     avg_pool2d,
     3,
     {.stride = 2, .padding = 1},
     {1, 3, 2, 1},
     {-0.1180555556, -0.07291666667, 0.2395833333, -0.1857638889, 0.08680555556, 0.05902777778},
     {-0.1649305556,   -0.2013888889,   -0.03645833333, -0.03645833333, -0.07291666667,
      -0.2395833333,   -0.1666666667,   -0.1666666667,  0.09201388889,  -0.03819444444,
      -0.1302083333,   -0.1302083333,   0.09027777778,  0.08680555556,  -0.003472222222,
      -0.003472222222, -0.001736111111, 0.125,          0.1267361111,   0.1267361111}},
    {"average of the image alone",
     avg_pool2d,
     3,
     {.stride = 2, .padding = 1, .count_include_pad = false},
     {1, 3, 2, 1},
     {-0.265625, -0.109375, 0.359375, -0.1857638889, 0.1953125, 0.08854166667},
     {-0.37109375,   -0.42578125,   -0.0546875,    -0.0546875,   -0.2330729167,
      -0.41796875,   -0.1848958333, -0.1848958333, 0.1380208333, 0.0078125,
      -0.1302083333, -0.1302083333, 0.1341145833,  0.1940104167, 0.05989583333,
      0.05989583333, -0.00390625,   0.1861979167,  0.1901041667, 0.1901041667}},
    {"average in ceil mode",
     avg_pool2d,
     2,
     {.padding = 1, .ceil_mode = true},
     {1, 3, 3, 1},
     {-0.39453125, 0.078125, -0.31640625, 0.3125, -0.0078125, -0.3203125, 0.203125, -0.2265625,
      0.359375},
     {-0.37109375, -0.08203125, -0.08203125, 0.20703125,  -0.29296875, -0.00390625, -0.00390625,
      0.28515625,  -0.29296875, -0.00390625, -0.00390625, 0.28515625,  -0.21484375, 0.07421875,
      0.07421875,  0.36328125,  -0.21484375, 0.07421875,  0.07421875,  0.36328125}},
};

TEST(Pool2d, HasPyTorchsValuesAndGradients) {
  for (const PoolCase& test : pytorch_cases) {
    SCOPED_TRACE(test.name);
    const Tensor x = variable({1, 5, 4, 1});
    const Tensor y = test.pool(x, test.kernel, test.options);
    expect_values(y, test.y, test.out);
    expect_values(gradients(y, {x})[0], x.shape(), test.dx);
  }
}

TEST(Pool2d, HasDerivativesOfFirstAndSecondOrder) {
  for (const Pool pool : {max_pool2d, avg_pool2d}) {
    for (const Pool2dOptions& options :
         {Pool2dOptions{}, Pool2dOptions{.stride = 1, .padding = 1},
          Pool2dOptions{.stride = {2, 1}, .ceil_mode = true, .count_include_pad = false}}) {
      expect_gradients(
          [&](const Inputs& in) {
            return square(pool(in[0], {2, 3}, options));
          },
          {variable({2, 3, 4, 2})});
    }
    expect_gradients([&](const Inputs& in) { return pool(in[0], 2, {}); },
                     {variable({0, 4, 4, 1})});
  }
  expect_gradients([](const Inputs& in) { return square(global_avg_pool2d(in[0])); },
                   {variable({2, 2, 3, 2})});
}

TEST(Pool2d, DropsAWindowThatStartsInTheTrailingPadding) {
  const Tensor wide = max_pool2d(Tensor::ones({1, 6, 7, 1}), 1, {.stride = 2, .ceil_mode = true});
  expect_values(wide, {1, 3, 4, 1}, Values(12, 1));
  const Pool2dOptions options{.stride = 2, .padding = 1, .ceil_mode = true};
  const Tensor x = variable({1, 5, 5, 1});
  const Tensor y = max_pool2d(x, 2, options);
  EXPECT_EQ(y.shape(), Shape({1, 3, 3, 1}));
  EXPECT_EQ(avg_pool2d(x, 2, options).shape(), Shape({1, 3, 3, 1}));
  // Every window's gradient lands inside the image.
  expect_values(sum(grad({sum(y)}, {x})[0]), {}, {9});
}

TEST(MaxPool2d, NeverLetsPaddingWin) {
  const Tensor x = Tensor::full({1, 4, 4, 2}, -1);
  expect_values(max_pool2d(x, 3, {.stride = 1, .padding = 1}), {1, 4, 4, 2}, Values(32, -1));
}

TEST(MaxPool2d, GivesTheGradientToTheFirstOfEqualElements) {
  const Tensor x = leaf({1, 1, 1, 1}, {1, 2, 2, 1});
  sum(max_pool2d(x, 2)).backward();
  expect_values(x.grad(), {1, 2, 2, 1}, {1, 0, 0, 0});
}

TEST(MaxPool2d, PassesNanOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = Tensor::from({1.0, nan, 3.0, 2.0}, {1, 2, 2, 1});
  expect_values(max_pool2d(x, 2), {1, 1, 1, 1}, {nan});
}

TEST(MaxPool2d, FindsPositionsInWindowsOfMoreThan256Elements) {
  const Tensor x = variable({1, 17, 17, 1});
  const Tensor masked = x + Tensor::from(
                                [] {
                                  Values values(289, 0);
                                  values[280] = 100;
                                  return values;
                                }(),
                                {1, 17, 17, 1});
  const Tensor d = grad({sum(max_pool2d(masked, 17))}, {x})[0];
  Values expected(289, 0);
  expected[280] = 1;
  expect_values(d, {1, 17, 17, 1}, expected);
}

TEST(Pool2d, OfAnEmptyBatch) {
  const Tensor x = Tensor::ones({0, 4, 4, 3});
  EXPECT_EQ(max_pool2d(x, 2).shape(), Shape({0, 2, 2, 3}));
  EXPECT_EQ(avg_pool2d(x, 2).shape(), Shape({0, 2, 2, 3}));
  EXPECT_EQ(global_avg_pool2d(x).shape(), Shape({0, 3}));
}

TEST(GlobalAvgPool2d, IsTheMeanOfEachChannel) {
  const Tensor x = Tensor::from({1.0, 10.0, 2.0, 20.0, 3.0, 30.0, 6.0, 60.0}, {1, 2, 2, 2});
  expect_values(global_avg_pool2d(x), {1, 2}, {3, 30});
  expect_error<ShapeError>(
      [] {
        return global_avg_pool2d(Tensor::ones({1, 0, 2, 2}));
      },
      "[global_avg_pool2d] x (1, 0, 2, 2) has no places to pool");
  // The padding alone would make room for a window.
  expect_error<ShapeError>(
      [] {
        return max_pool2d(Tensor::ones({1, 0, 2, 2}), 2, {.padding = 1});
      },
      "[max_pool2d] x (1, 0, 2, 2) has no places to pool");
}

TEST(Pool2d, RefusesWindowsThatDoNotFit) {
  const Tensor x = Tensor::ones({1, 2, 2, 1});
  expect_error<ShapeError>([&] { return max_pool2d(x, 3); },
                           "[max_pool2d] kernel 3x3 is larger than input 2x2 with padding 0x0");
  expect_error<ShapeError>(
      [&] {
        return avg_pool2d(x, {2, 5}, {.padding = {0, 1}});
      },
      "[avg_pool2d] kernel 2x5 is larger than input 2x2 with padding 0x1");
  expect_error<ShapeError>([&] { return max_pool2d(x, 2, {.padding = 2}); },
                           "[max_pool2d] padding 2x2 with kernel 2x2; wanted 0 to half the kernel");
  expect_error<ShapeError>([&] { return max_pool2d(x, 0); },
                           "[max_pool2d] kernel 0x0, stride 0x0; wanted at least 1x1");
  expect_error<ShapeError>(
      [&] {
        return max_pool2d(x, 2, {.stride = {1, 0}});
      },
      "[max_pool2d] kernel 2x2, stride 1x0");
  expect_error<ShapeError>(
      [&] {
        return max_pool2d(Tensor::ones({2, 2}), 2);
      },
      "[max_pool2d] x is (2, 2), wanted (N, H, W, C)");
}

}  // namespace
}  // namespace adret
