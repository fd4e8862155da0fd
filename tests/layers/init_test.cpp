// Initial values: fans, bounds, moments and repeatability.
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/init.h>
#include <adret/layers/linear.h>
#include <adret/layers/orthonormalize.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <utility>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments(const Tensor& x) {
  const std::vector<float> values = x.to_vector();
  Moments m{.low = values[0], .high = values[0]};
  for (const float v : values) {
    m.mean += v / double(values.size());
    m.low = std::min<double>(m.low, v);
    m.high = std::max<double>(m.high, v);
  }
  for (const float v : values) m.std += (v - m.mean) * (v - m.mean) / double(values.size());
  m.std = std::sqrt(m.std);
  return m;
}

// Within five standard errors: std / sqrt(n) for the mean, std / sqrt(2 n) for the deviation of a
// normal (a uniform's is smaller).
void expect_moments(const Tensor& x, double mean, double std) {
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, mean, 5 * std / std::sqrt(double(x.numel())));
  EXPECT_NEAR(m.std, std, 5 * std / std::sqrt(2.0 * double(x.numel())));
}

void expect_uniform(const Tensor& x, double bound) {
  expect_moments(x, 0, bound / std::sqrt(3.0));
  const Moments m = moments(x);
  EXPECT_GE(m.low, -bound);
  EXPECT_LT(m.high, bound);
  EXPECT_GT(m.high - m.low, 1.999 * bound);
}

// PyTorch's _calculate_fan_in_and_fan_out of the same weights in its layout.
TEST(Init, FansCountTheKernel) {
  const init::Fans linear = init::fans({10, 784});
  EXPECT_EQ(linear.in, 784);
  EXPECT_EQ(linear.out, 10);
  const init::Fans conv = init::fans({16, 5, 3, 4});  // 16 out, 4 in, 5x3
  EXPECT_EQ(conv.in, 60);
  EXPECT_EQ(conv.out, 240);
  expect_error<ShapeError>([] { return init::fans({3}); },
                           "[init] a weight (3,) has no fan; it takes at least two dimensions");
}

TEST(Init, FillsHaveTheirMoments) {
  const Tensor x = Tensor::empty({1000, 100});
  init::uniform_(x, -1, 3);
  expect_moments(x, 1, 4 / std::sqrt(12.0));
  init::normal_(x, 2, 0.5);
  expect_moments(x, 2, 0.5);
  init::constant_(x, 0.25);
  EXPECT_EQ(moments(x).low, 0.25);
  EXPECT_EQ(moments(x).high, 0.25);
}

TEST(Init, KaimingKeepsTheVariance) {
  const Tensor x = Tensor::empty({400, 5, 5, 10});  // fan_in 250, fan_out 10,000
  init::kaiming_uniform_(x);
  expect_uniform(x, std::sqrt(6.0 / 250));
  init::kaiming_normal_(x, {.fan = init::FanMode::out});
  expect_moments(x, 0, std::sqrt(2.0 / 10000));
  init::kaiming_normal_(x, {.gain = init::leaky_relu_gain(1)});
  expect_moments(x, 0, std::sqrt(1.0 / 250));
}

TEST(Init, XavierMeetsBothDirections) {
  const Tensor x = Tensor::empty({100, 1000});
  init::xavier_uniform_(x);
  expect_uniform(x, std::sqrt(6.0 / 1100));
  init::xavier_normal_(x, {.gain = init::tanh_gain});
  expect_moments(x, 0, 5.0 / 3.0 * std::sqrt(2.0 / 1100));
}

// torch.nn.Linear and Conv2d: kaiming_uniform_(a=sqrt(5)) is uniform within 1 / sqrt(fan_in).
TEST(Init, LayersStartAsPyTorchs) {
  const Linear fc(400, 1000);
  expect_uniform(fc.weight, 1 / 20.0);
  expect_moments(fc.bias, 0, 1 / (20 * std::sqrt(3.0)));
  const Conv2d conv(16, 256, {.kernel = 5});
  expect_uniform(conv.weight, 1 / 20.0);
  expect_moments(conv.bias, 0, 1 / (20 * std::sqrt(3.0)));
}

TEST(Init, ZerosOnesAndTheIdentity) {
  const Tensor x = Tensor::full({2, 3}, 7);
  init::zeros_(x);
  EXPECT_EQ(x.to_vector(), std::vector<float>(6, 0));
  init::ones_(x);
  EXPECT_EQ(x.to_vector(), std::vector<float>(6, 1));
  init::eye_(x);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  const Tensor tall = Tensor::full({3, 2}, 7, {.dtype = DType::bf16});
  init::eye_(tall);
  EXPECT_EQ(tall.to(DType::f32).to_vector(), (std::vector<float>{1, 0, 0, 1, 0, 0}));
  expect_error<ShapeError>(
      [] {
        return init::eye_(Tensor::empty({2, 1, 1, 2})), 0;
      },
      "[eye_] a weight (2, 1, 1, 2) has 4 dimension(s); it takes 2");
}

// The places of ones in a weight, as PyTorch's dirac_ sets them in its layout (O, I, KH, KW).
std::vector<Shape> ones(const Shape& shape, int64_t groups) {
  const Tensor x = Tensor::full(shape, 7);
  init::dirac_(x, {.groups = groups});
  const std::vector<float> values = x.to_vector();
  std::vector<Shape> places;
  for (int64_t o = 0, at = 0; o < shape[0]; ++o) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t w = 0; w < shape[2]; ++w) {
        for (int64_t i = 0; i < shape[3]; ++i, ++at) {
          EXPECT_TRUE(values[size_t(at)] == 0 || values[size_t(at)] == 1);
          if (values[size_t(at)] == 1) places.push_back({o, h, w, i});
        }
      }
    }
  }
  return places;
}

TEST(Init, DiracPassesChannelsOn) {
  EXPECT_EQ(ones({3, 3, 5, 2}, 1), (std::vector<Shape>{{0, 1, 2, 0}, {1, 1, 2, 1}}));
  EXPECT_EQ(ones({4, 4, 2, 3}, 2),  // even kernels: the pixel behind the middle
            (std::vector<Shape>{{0, 2, 1, 0}, {1, 2, 1, 1}, {2, 2, 1, 0}, {3, 2, 1, 1}}));
  const Tensor line = Tensor::empty({2, 3, 2});
  init::dirac_(line);
  EXPECT_EQ(line.to_vector(), (std::vector<float>{0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
  expect_error<ShapeError>(
      [] {
        return init::dirac_(Tensor::empty({3, 1, 1, 3}), {.groups = 2}), 0;
      },
      "[dirac_] 2 groups do not divide the 3 outputs of (3, 1, 1, 3)");
}

// Whether rows . rows^T, or columns^T . columns if these are fewer, is gain^2 times the identity.
void expect_orthogonal(const Tensor& weight, double gain, double tolerance) {
  const auto w = weight.to(DType::f64).to_vector<double>();
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const bool wide = rows <= columns;
  const auto element = [&](int64_t vector, int64_t i) {
    return w[size_t(wide ? vector * columns + i : i * columns + vector)];
  };
  const int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b <= a; ++b) {
      double dot = 0;
      for (int64_t i = 0; i < length; ++i) dot += element(a, i) * element(b, i);
      EXPECT_NEAR(dot, a == b ? gain * gain : 0, tolerance) << a << " " << b;
    }
  }
}

TEST(Init, OrthogonalIsInEitherDirection) {
  for (const Shape& shape : {Shape{40, 25}, Shape{25, 40}, Shape{30, 30}, Shape{8, 3, 3, 5},
                             Shape{60, 2, 2, 3}, Shape{1, 4}, Shape{4, 1}}) {
    const Tensor exact = Tensor::empty(shape, {.dtype = DType::f64});
    init::orthogonal_(exact, {.gain = 2});
    expect_orthogonal(exact, 2, 1e-13);
    const Tensor x = Tensor::empty(shape);
    init::orthogonal_(x);
    expect_orthogonal(x, 1, 1e-6);
  }
  init::orthogonal_(Tensor::empty({3, 0}));
  expect_error<ShapeError>([] { return init::orthogonal_(Tensor::empty({3})), 0; },
                           "[orthogonal_] a weight (3,) is no matrix");
}

// Rows (1, e, 0, 0), (1, 0, e, 0) and (1, 0, 0, e): what one pass leaves of the differences between
// them is off by rounding / e, nearly parallel as they are.
TEST(Init, NearlyParallelRowsBecomeOrthonormal) {
  const double e = 1e-8;
  std::vector<double> rows{1, e, 0, 0, 1, 0, e, 0, 1, 0, 0, e};
  orthonormalize(rows.data(), 3, 4);
  expect_orthogonal(Tensor::from(rows, {3, 4}), 1, 1e-15);
}

// A random rotation's elements have mean 0 and variance 1 / n.
TEST(Init, OrthogonalIsARandomRotation) {
  const Tensor x = Tensor::empty({200, 200});
  init::orthogonal_(x);
  expect_moments(x, 0, 1 / std::sqrt(200.0));
  const Tensor y = Tensor::empty({200, 200});
  init::orthogonal_(y);
  EXPECT_NE(x.to_vector(), y.to_vector());
}

// Moments of a truncated normal: with a = (low - mean) / std, b alike, the density phi and the
// share Z between, mean + std (phi(a) - phi(b)) / Z and
// std^2 (1 + (a phi(a) - b phi(b)) / Z - ((phi(a) - phi(b)) / Z)^2).
void expect_truncated(const init::TruncatedNormalOptions& options) {
  const auto phi = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); };
  const double a = (options.low - options.mean) / options.std,
               b = (options.high - options.mean) / options.std;
  const auto above = [](double x) { return std::erfc(x / std::numbers::sqrt2) / 2; };
  const double share = b < 0 ? above(-b) - above(-a) : above(a) - above(b);
  const double shift = (phi(a) - phi(b)) / share;
  const double variance = 1 + (a * phi(a) - b * phi(b)) / share - shift * shift;
  const Tensor x = Tensor::empty({300, 400}, {.dtype = DType::f64});
  init::trunc_normal_(x, options);
  const Moments m = moments(x.to(DType::f32));
  const double std = options.std * std::sqrt(variance);
  EXPECT_NEAR(m.mean, options.mean + options.std * shift, 5 * std / std::sqrt(120000.0));
  EXPECT_NEAR(m.std, std, 5 * std / std::sqrt(120000.0));
  for (const double value : x.to_vector<double>()) {
    ASSERT_GE(value, options.low);
    ASSERT_LE(value, options.high);
  }
}

TEST(Init, TruncatedNormalHasItsBoundsAndMoments) {
  expect_truncated({});
  expect_truncated({.mean = 1, .std = 0.5, .low = -10, .high = 10});
  expect_truncated({.std = 0.02, .low = -0.01, .high = 0.05});
  expect_truncated({.low = 4, .high = 5});  // tails
  expect_truncated({.low = -9, .high = -8});
  expect_truncated({.low = 8, .high = 9});  // where the distribution function is 1
  expect_error<Error>([] { return init::trunc_normal_(Tensor::empty({1}), {.low = 3}), 0; },
                      "[trunc_normal_] wants a std above 0 and low below high, got 1, 3 and 2");
}

// Beyond 38 deviations the distribution function underflows. There the mean over a bound a is
// 1 / R(a) = a + 1/a - 2/a^3 + ... and the deviation 1/a (1 - 3/a^2 ...), R being Mills' ratio; the
// upper bound leaves out a share of exp(-a).
TEST(Init, TruncatedNormalsOfFarTailsAreDrawn) {
  for (const auto& [options, a] :
       {std::pair{init::TruncatedNormalOptions{.low = 50, .high = 51}, 50.0},
        {init::TruncatedNormalOptions{.low = -51, .high = -50}, 50.0},
        {init::TruncatedNormalOptions{.mean = 1, .std = 2, .low = 201, .high = INFINITY}, 100.0}}) {
    const Tensor x = Tensor::empty({300, 400}, {.dtype = DType::f64});
    init::trunc_normal_(x, options);
    const double side = options.low > options.mean ? 1 : -1;
    double mean = 0, squares = 0;
    for (const double value : x.to_vector<double>()) {
      ASSERT_GE(value, options.low);
      ASSERT_LE(value, options.high);
      const double beyond = side * (value - options.mean) / options.std - a;
      mean += beyond / 120000;
      squares += beyond * beyond / 120000;
    }
    const double error = 5 / a / std::sqrt(120000.0);
    EXPECT_NEAR(mean, 1 / a - 2 / (a * a * a), error);
    EXPECT_NEAR(std::sqrt(squares - mean * mean), 1 / a * (1 - 3 / (a * a)), 2 * error);
  }
  const Tensor x = Tensor::empty({9}, {.dtype = DType::f64});
  init::trunc_normal_(x, {.std = 1e-300, .low = 1e300, .high = 2e300});  // by rounding the bound
  EXPECT_EQ(x.to_vector<double>(), std::vector<double>(9, 1e300));
}

TEST(Init, TakesFloatsAlone) {
  using Fill = std::function<void(const Tensor&)>;
  const std::vector<std::pair<std::string, Fill>> fills = {
      {"zeros_", init::zeros_},
      {"ones_", init::ones_},
      {"constant_", [](const Tensor& x) { init::constant_(x, 1); }},
      {"uniform_", [](const Tensor& x) { init::uniform_(x, 0, 1); }},
      {"normal_", [](const Tensor& x) { init::normal_(x, 0, 1); }},
      {"trunc_normal_", [](const Tensor& x) { init::trunc_normal_(x); }},
      {"kaiming_uniform_", [](const Tensor& x) { init::kaiming_uniform_(x); }},
      {"kaiming_normal_", [](const Tensor& x) { init::kaiming_normal_(x); }},
      {"xavier_uniform_", [](const Tensor& x) { init::xavier_uniform_(x); }},
      {"xavier_normal_", [](const Tensor& x) { init::xavier_normal_(x); }},
      {"orthogonal_", [](const Tensor& x) { init::orthogonal_(x); }},
      {"sparse_", [](const Tensor& x) { init::sparse_(x, {.sparsity = 0.5}); }},
      {"eye_", init::eye_},
      {"dirac_",
       [](const Tensor& x) {
         init::dirac_(x.reshape({2, 1, 2}));
       }},
      {"fan_in_uniform_", [](const Tensor& x) { init::fan_in_uniform_(x, {}); }}};
  for (const auto& [function, fill] : fills) {
    for (const DType dtype : {DType::i32, DType::i64, DType::u8, DType::boolean}) {
      const Tensor x = Tensor::zeros({2, 2}, {.dtype = dtype});
      const std::string text = thrown<ShapeError>([&, &fill = fill] { return fill(x), 0; });
      EXPECT_EQ(text.substr(0, function.size() + 3), "[" + function + "] ");
      EXPECT_NE(text.find("wanted a floating dtype"), text.npos) << text;
      EXPECT_EQ(x.to(DType::i32).to_vector<int32_t>(), std::vector<int32_t>(4, 0));
    }
  }
}

TEST(Init, SparseHasItsZerosInEveryColumn) {
  const Tensor x = Tensor::empty({35, 300});
  init::sparse_(x, {.sparsity = 0.3, .std = 0.5});  // 10.5: 11 of 35
  const auto values = x.to_vector();
  std::vector<int> by_row(35, 0);
  double squares = 0;
  for (size_t column = 0; column < 300; ++column) {
    int zeros = 0;
    for (size_t row = 0; row < 35; ++row) {
      const float value = values[row * 300 + column];
      zeros += value == 0;
      by_row[row] += value == 0;
      squares += double(value) * value;
    }
    EXPECT_EQ(zeros, 11);
  }
  // Rows are drawn alike: 300 * 11 / 35 each, within five deviations.
  for (const int count : by_row) EXPECT_NEAR(count, 94.3, 5 * std::sqrt(94.3 * (1 - 11.0 / 35)));
  EXPECT_NEAR(std::sqrt(squares / (300 * 24)), 0.5, 5 * 0.5 / std::sqrt(2.0 * 300 * 24));
  expect_error<Error>(
      [] {
        return init::sparse_(Tensor::empty({1, 1}), {.sparsity = 2}), 0;
      },
      "[sparse_] sparsity is 2; it must lie in 0..1");
}

TEST(Init, RefusesWhatIsNoDistribution) {
  const Tensor x = Tensor::empty({4}), wide = Tensor::empty({4}, {.dtype = DType::f64});
  const double infinity = INFINITY;
  for (const auto& [low, high] : {std::pair{-3e38, 3e38},
                                  {0.0, infinity},
                                  {-infinity, 0.0},
                                  {double(NAN), 1.0},
                                  {0.0, double(NAN)},
                                  {1.0, 0.5}}) {
    expect_error<Error>([&] { return init::uniform_(x, low, high), 0; },
                        "[uniform_] the bounds are");
  }
  expect_error<ShapeError>([&] { return init::uniform_(x, 0, 1e39), 0; },
                           "[uniform_] value 1e+39 does not fit f32");
  expect_error<Error>([&] { return init::uniform_(wide, -1.5e308, 1.5e308), 0; },
                      "[uniform_] the bounds are");
  init::uniform_(wide, -3e38, 3e38);
  init::uniform_(x, 2, 2);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{2, 2, 2, 2}));
  for (const auto& [mean, std] :
       {std::pair{0.0, -1.0}, {0.0, double(NAN)}, {0.0, infinity}, {double(NAN), 1.0}}) {
    expect_error<Error>([&] { return init::normal_(x, mean, std), 0; }, "[normal_] mean is");
    expect_error<Error>([&] { return init::trunc_normal_(x, {.mean = mean, .std = std}), 0; },
                        "[trunc_normal_] mean is");
  }
  init::normal_(x, 3, 0);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{3, 3, 3, 3}));
  expect_error<Error>(
      [] {
        return init::sparse_(Tensor::empty({2, 2}), {}), 0;
      },
      "[sparse_] sparsity is nan");
}

TEST(Init, OfNoInputsIsFinite) {
  const Tensor weight = Tensor::empty({3, 0}), bias = Tensor::empty({3});
  init::fan_in_uniform_(weight, bias);
  for (const float value : bias.to_vector()) EXPECT_LE(std::abs(value), 1);
  init::kaiming_uniform_(weight);
  init::xavier_normal_(Tensor::empty({0, 0}));
}

TEST(Init, TheSeedDecidesAndEachLayerDiffers) {
  random::manual_seed(5);
  const Linear a(4, 4), b(4, 4);
  random::manual_seed(5);
  const Linear again(4, 4);
  EXPECT_EQ(a.weight.value.to_vector(), again.weight.value.to_vector());
  const auto drawn = [] {
    random::manual_seed(5);
    const Tensor x = Tensor::empty({4, 4}), y = Tensor::empty({4, 4}), z = Tensor::empty({4, 4});
    init::orthogonal_(x);
    init::trunc_normal_(y);
    init::sparse_(z, {.sparsity = 0.5});
    return std::vector{x.to_vector(), y.to_vector(), z.to_vector()};
  };
  EXPECT_EQ(drawn(), drawn());
  EXPECT_NE(a.weight.value.to_vector(), b.weight.value.to_vector());
}

}  // namespace
}  // namespace adret
