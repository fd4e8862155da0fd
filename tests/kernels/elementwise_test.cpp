// Fills, copies, casts and functions of one operand against the C library in f64.
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
using kernels::UnaryOp;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
Values unary(UnaryOp op, const Values& x, double alpha = 1, double beta = 0) {
  const Shape shape{int64_t(x.size())};
  const Guarded<T> in(shape, x), out(shape);
  run(kernels::Unary{.x = in, .y = out, .op = op, .alpha = alpha, .beta = beta});
  EXPECT_TRUE(out.guards_intact());
  return out.values();
}

template <class T>
Values unary_backward(UnaryOp op, const Values& saved, const Values& dy) {
  const Shape shape{int64_t(dy.size())};
  const Guarded<T> kept(shape, saved), in(shape, dy), out(shape);
  run(kernels::UnaryBackward{.saved = kept, .dy = in, .dx = out, .op = op});
  EXPECT_TRUE(out.guards_intact());
  return out.values();
}

struct UnaryCase {
  UnaryOp op;
  double low, high;  // range of the inputs
  double ulps;       // largest error in f32, in units of the last place
  double (*expected)(double);
};

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Arithmetic rounds once or twice (0.5 to 1 ulp); the functions' bounds are those of vector_math.h.
const UnaryCase unary_cases[] = {
    {UnaryOp::affine, -100, 100, 1, [](double x) { return x; }},
    {UnaryOp::reciprocal, 0.1, 100, 1, [](double x) { return 1 / x; }},
    {UnaryOp::divide, -100, 100, 1, [](double x) { return x; }},
    {UnaryOp::exp, -87, 88, 2, [](double x) { return std::exp(x); }},
    {UnaryOp::exp, -1, 1, 2, [](double x) { return std::exp(x); }},
    {UnaryOp::log, 1e-30, 1e5, 2, [](double x) { return std::log(x); }},
    {UnaryOp::log, 0.4, 2.5, 2, [](double x) { return std::log(x); }},
    {UnaryOp::sqrt, 0, 1000, 1, [](double x) { return std::sqrt(x); }},
    {UnaryOp::rsqrt, 0.01, 1000, 2, [](double x) { return 1 / std::sqrt(x); }},
    {UnaryOp::exp2, -125, 127, 2, [](double x) { return std::exp2(x); }},
    {UnaryOp::exp2, -1, 1, 2, [](double x) { return std::exp2(x); }},
    {UnaryOp::expm1, -80, 88, 1, [](double x) { return std::expm1(x); }},
    {UnaryOp::expm1, -1e-3, 1e-3, 1, [](double x) { return std::expm1(x); }},
    {UnaryOp::log2, 1e-30, 1e5, 1, [](double x) { return std::log2(x); }},
    {UnaryOp::log2, 0.4, 2.5, 1, [](double x) { return std::log2(x); }},
    {UnaryOp::log1p, -0.99, 100, 1, [](double x) { return std::log1p(x); }},
    {UnaryOp::log1p, -1e-3, 1e-3, 1, [](double x) { return std::log1p(x); }},
    {UnaryOp::erf, -4, 4, 2, [](double x) { return std::erf(x); }},
    {UnaryOp::erfc, -4, 9, 4, [](double x) { return std::erfc(x); }},
    {UnaryOp::erfc, -1, 1, 4, [](double x) { return std::erfc(x); }},
    {UnaryOp::sin, -10, 10, 2, [](double x) { return std::sin(x); }},
    {UnaryOp::sin, -1e13, 1e13, 2, [](double x) { return std::sin(x); }},
    {UnaryOp::cos, -10, 10, 2, [](double x) { return std::cos(x); }},
    {UnaryOp::cos, -1e6, 1e6, 2, [](double x) { return std::cos(x); }},
    {UnaryOp::tan, -10, 10, 4, [](double x) { return std::tan(x); }},
    {UnaryOp::asin, -1, 1, 2, [](double x) { return std::asin(x); }},
    {UnaryOp::acos, -1, 1, 2, [](double x) { return std::acos(x); }},
    {UnaryOp::atan, -2, 2, 2, [](double x) { return std::atan(x); }},
    {UnaryOp::atan, -1e4, 1e4, 2, [](double x) { return std::atan(x); }},
    {UnaryOp::sinh, -80, 80, 3, [](double x) { return std::sinh(x); }},
    {UnaryOp::sinh, -0.1, 0.1, 3, [](double x) { return std::sinh(x); }},
    {UnaryOp::cosh, -80, 80, 2, [](double x) { return std::cosh(x); }},
    {UnaryOp::floor, -100, 100, 0, [](double x) { return std::floor(x); }},
    {UnaryOp::ceil, -100, 100, 0, [](double x) { return std::ceil(x); }},
    {UnaryOp::round, -100, 100, 0, [](double x) { return std::nearbyint(x); }},
    {UnaryOp::trunc, -100, 100, 0, [](double x) { return std::trunc(x); }},
    {UnaryOp::abs, -10, 10, 0, [](double x) { return std::abs(x); }},
    {UnaryOp::sign, -1, 1, 0, [](double x) { return double((x > 0) - (x < 0)); }},
    {UnaryOp::relu, -1, 1, 0, [](double x) { return std::max(x, 0.0); }},
    {UnaryOp::relu6, -1, 8, 0, [](double x) { return std::clamp(x, 0.0, 6.0); }},
    {UnaryOp::sigmoid, -80, 80, 3, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {UnaryOp::sigmoid, -2, 2, 3, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {UnaryOp::tanh, -10, 10, 3, [](double x) { return std::tanh(x); }},
    {UnaryOp::tanh, -0.7, 0.7, 3, [](double x) { return std::tanh(x); }},
    {UnaryOp::gelu, -5, 5, 8, [](double x) { return x * normal_cdf(x); }},
    {UnaryOp::gelu, -7, -5, 8, [](double x) { return x * normal_cdf(x); }},
    {UnaryOp::silu, -20, 20, 4, [](double x) { return x / (1 + std::exp(-x)); }},
    {UnaryOp::mish, -20, 30, 4, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {UnaryOp::softsign, -9, 9, 2, [](double x) { return x / (1 + std::abs(x)); }},
};

Values spread(const UnaryCase& test, int64_t count, uint32_t seed) {
  Values x = random_values(count, seed);
  for (double& v : x) {
    v = double(float(test.low + (test.high - test.low) * (v + 1) / 2));
  }
  return x;
}

// The bounds are distances from the result that is rounded once, as CUDA's documentation has them.
TEST(Unary, MatchesTheCLibraryInF32) {
  for (const UnaryCase& test : unary_cases) {
    const Values x = spread(test, 100'000, 1);
    const Values y = unary<float>(test.op, x);
    double most = 0;
    size_t worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = float(test.expected(x[i]));
      const double ulp = double(std::nextafter(std::abs(expected), INFINITY)) - std::abs(expected);
      const double error = std::isnan(y[i]) ? INFINITY : std::abs(y[i] - double(expected)) / ulp;
      if (error <= most) continue;
      most = error;
      worst = i;
    }
    EXPECT_LE(most, test.ulps) << kernels::to_string(test.op) << "(" << x[worst]
                               << ") = " << y[worst] << ", not " << test.expected(x[worst]);
  }
}

TEST(Unary, MatchesTheCLibraryInF64) {
  for (const UnaryCase& test : unary_cases) {
    const Values x = spread(test, 10'000, 2);
    Values expected;
    for (double v : x) expected.push_back(test.expected(v));
    // A few units in the last place of f64 (2.2e-16); erfc magnifies its argument's rounding
    // 25-fold.
    expect_close(unary<double>(test.op, x), expected, {.relative = 1e-14},
                 kernels::to_string(test.op));
  }
}

TEST(Unary, TakesAlphaAndBeta) {
  const Values x{-2, 0.5, 3};
  EXPECT_EQ(unary<float>(UnaryOp::affine, x, 2, -1), (Values{-5, 0, 5}));
  EXPECT_EQ(unary<float>(UnaryOp::reciprocal, x, 6), (Values{-3, 12, 2}));
  EXPECT_EQ(unary<float>(UnaryOp::divide, {49, -98, 12.25}, 49), (Values{1, -2, 0.25}));
  EXPECT_EQ(unary<float>(UnaryOp::divide, {1, -1}, 0), (Values{inf, -inf}));
  EXPECT_EQ(unary<double>(UnaryOp::power, x, 2), (Values{4, 0.25, 9}));
  EXPECT_EQ(unary<double>(UnaryOp::power, x, 3), (Values{-8, 0.125, 27}));
  EXPECT_EQ(unary<double>(UnaryOp::power, x, 0), (Values{1, 1, 1}));
  expect_close(unary<float>(UnaryOp::power, x, 0.5), {nan, std::sqrt(0.5), std::sqrt(3.0)},
               {.relative = 1e-7}, "power");
  expect_close(unary<float>(UnaryOp::power, {0, -0.0, inf, nan}, -1), {inf, -inf, 0, nan}, {},
               "power");
}

TEST(Unary, HandlesSpecialValues) {
  struct Special {
    UnaryOp op;
    Values x, y;
  };
  const double least = std::numeric_limits<float>::denorm_min();
  const Special cases[] = {
      {UnaryOp::exp, {inf, -inf, nan, 0, -0.0, 89, -150}, {inf, 0, nan, 1, 1, inf, 0}},
      {UnaryOp::log, {inf, -inf, nan, 0, -0.0, -1, 1}, {inf, nan, nan, -inf, -inf, nan, 0}},
      {UnaryOp::sqrt, {inf, -inf, nan, 0, -1}, {inf, nan, nan, 0, nan}},
      {UnaryOp::abs, {inf, -inf, nan, -0.0}, {inf, inf, nan, 0}},
      {UnaryOp::sign, {inf, -inf, nan, 0, -least}, {1, -1, nan, 0, -1}},
      {UnaryOp::relu, {inf, -inf, nan, -0.0, -least, least}, {inf, 0, nan, 0, 0, least}},
      {UnaryOp::relu6, {inf, -inf, nan, -0.0, least, 6, 7}, {6, 0, nan, 0, least, 6, 6}},
      {UnaryOp::sigmoid, {inf, -inf, nan, 0}, {1, 0, nan, 0.5}},
      {UnaryOp::tanh, {inf, -inf, nan, 0, least}, {1, -1, nan, 0, least}},
      {UnaryOp::gelu, {inf, nan, 0, 40, -40, -1e20}, {inf, nan, 0, 40, 0, 0}},
      {UnaryOp::reciprocal, {inf, 0, -0.0, nan}, {0, inf, -inf, nan}},
      {UnaryOp::rsqrt, {inf, 0, -1, nan}, {0, inf, nan, nan}},
      {UnaryOp::exp2, {inf, -inf, nan, 0, 200, -200, 10}, {inf, 0, nan, 1, inf, 0, 1024}},
      {UnaryOp::expm1, {inf, -inf, nan, 0, 100, -100}, {inf, -1, nan, 0, inf, -1}},
      {UnaryOp::log2, {inf, -inf, nan, 0, -1, 8, 1}, {inf, nan, nan, -inf, nan, 3, 0}},
      {UnaryOp::log1p, {inf, -1, nan, 0, -2}, {inf, -inf, nan, 0, nan}},
      {UnaryOp::erf, {inf, -inf, nan, 0}, {1, -1, nan, 0}},
      {UnaryOp::erfc, {inf, -inf, nan, 0, 20}, {0, 2, nan, 1, 0}},
      {UnaryOp::sin, {inf, nan, 0}, {nan, nan, 0}},
      {UnaryOp::cos, {-inf, nan, 0}, {nan, nan, 1}},
      {UnaryOp::tan, {inf, nan, 0}, {nan, nan, 0}},
      {UnaryOp::asin, {1.5, nan, 0, inf}, {nan, nan, 0, nan}},
      {UnaryOp::acos, {-1.5, nan, 1, inf}, {nan, nan, 0, nan}},
      {UnaryOp::atan, {nan, 0}, {nan, 0}},
      {UnaryOp::sinh, {inf, -inf, nan, 0, 100}, {inf, -inf, nan, 0, inf}},
      {UnaryOp::cosh, {inf, -inf, nan, 0, 100}, {inf, inf, nan, 1, inf}},
      {UnaryOp::floor, {inf, -inf, nan, -0.5}, {inf, -inf, nan, -1}},
      {UnaryOp::round, {inf, nan, -0.5, 0.5, 1.5, 2.5, -2.5}, {inf, nan, 0, 0, 2, 2, -2}},
      {UnaryOp::silu, {inf, nan, 0, -200}, {inf, nan, 0, 0}},
      {UnaryOp::mish, {inf, nan, 0, 1e20, -200}, {inf, nan, 0, 1e20f, 0}},
      {UnaryOp::softsign, {nan, 0}, {nan, 0}},
      {UnaryOp::hardsigmoid, {inf, -inf, nan, -3, 3, 0}, {1, 0, nan, 0, 1, 0.5}},
      {UnaryOp::hardswish, {inf, nan, -3, 3, 0, -9}, {inf, nan, 0, 3, 0, 0}},
      {UnaryOp::gelu_tanh, {inf, nan, 0, 40, -40}, {inf, nan, 0, 40, 0}},
  };
  for (const Special& test : cases) {
    expect_close(unary<float>(test.op, test.x), test.y, {}, kernels::to_string(test.op));
  }
  // Subnormal numbers are neither flushed as results nor as arguments.
  expect_close(unary<float>(UnaryOp::exp, {-100}), {std::exp(-100.0)}, {.absolute = least}, "exp");
  expect_close(unary<float>(UnaryOp::log, {1e-40f}), {std::log(double(1e-40f))}, {.relative = 1e-7},
               "log");
  // The far tail of the normal distribution keeps its digits.
  expect_close(unary<float>(UnaryOp::gelu, {-9, -12.5}),
               {-9 * normal_cdf(-9), -12.5 * normal_cdf(-12.5)}, {.relative = 1e-6}, "gelu");
}

// torch.nn.functional, PyTorch 1.13.
TEST(Unary, TakesTheParametersOfActivations) {
  const Values x{-5, -1, 0, 0.5, 30, nan};
  const Tolerance f32{.relative = 3e-7};
  expect_close(unary<float>(UnaryOp::softplus, x, 2, 20),
               {2.269944945875e-05, 0.06346400572, 0.3465735903, 0.6566308438, 30, nan}, f32,
               "softplus");
  expect_close(
      unary<float>(UnaryOp::softplus, x, -1, inf),
      {-5.006715348489, -1.313261687518, -0.69314718056, -0.474076984180, -9.357622968840e-14, nan},
      f32, "logsigmoid");
  expect_close(unary<float>(UnaryOp::elu, x, 0.5, 2), {-0.9932620530, -0.6321205588, 0, 1, 60, nan},
               f32, "elu");
  const Values left{-1e-6, -0.01, -0.3, -0.35, -17, -80, -inf};  // expm1 keeps what is small
  Values expected;
  for (double v : left) expected.push_back(std::expm1(double(float(v))));
  expect_close(unary<float>(UnaryOp::elu, left, 1, 1), expected, f32, "elu");
  expect_close(unary<float>(UnaryOp::leaky_relu, x, 0.25), {-1.25, -0.25, 0, 0.5, 30, nan}, {},
               "leaky_relu");
  expect_close(unary<float>(UnaryOp::clamp, {-5, -1, 0, 2, inf, -inf, nan}, -1, 1.5),
               {-1, -1, 0, 1.5, 1.5, -1, nan}, {}, "clamp");
}

TEST(Unary, GivesAnElementTheSameBitsAtAnyPlace) {
  for (const UnaryCase& test : unary_cases) {
    for (double x : spread(test, 5, 3)) {
      const double alone = unary<float>(test.op, {x})[0];
      for (size_t n : {3, 8, 17, 70}) {
        EXPECT_EQ(unary<float>(test.op, Values(n, x)), Values(n, alone))
            << kernels::to_string(test.op);
      }
    }
  }
}

TEST(Unary, WorksInPlaceAndOnNothing) {
  Tensor x = Tensor::from<float>({-1, 2, -3}, {3});
  run(kernels::Unary{.x = x, .y = x, .op = UnaryOp::relu});
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 2, 0}));
  Tensor empty = Tensor::empty({0, 4});
  run(kernels::Unary{.x = empty, .y = empty, .op = UnaryOp::exp});
}

TEST(Unary, GivesTheSameBitsForAnyNumberOfThreads) {
  const Values x = random_values(100'000, 4);
  expect_same_for_any_threads([&] { return unary<float>(UnaryOp::gelu, x); });
}

TEST(Unary, RefusesIntegers) {
  ADRET_CPU_ONLY("the error is that of the CPU's kernel");
  const Tensor x = Tensor::empty({2}, {.dtype = DType::i32});
  expect_error<ShapeError>(
      [&] {
        run(kernels::Unary{.x = x, .y = x, .op = UnaryOp::exp});
        return 0;
      },
      "[unary] runs in floating dtypes, not in i32; convert with to(DType::f32)");
}

TEST(UnaryBackward, MatchesTheDerivatives) {
  const Values x = random_values(5000, 5), dy = random_values(5000, 6);
  Values relu_y, sigmoid_y, tanh_y, gelu_x, relu, sigmoid, tanh, gelu;
  for (size_t i = 0; i < x.size(); ++i) {
    const double s = double(float(1 / (1 + std::exp(-4 * x[i])))),
                 t = double(float(std::tanh(2 * x[i])));
    const double g = double(float(4 * x[i]));
    relu_y.push_back(std::max(0.0, x[i]));
    sigmoid_y.push_back(s);
    tanh_y.push_back(t);
    gelu_x.push_back(g);
    relu.push_back(x[i] > 0 ? dy[i] : 0);
    sigmoid.push_back(dy[i] * s * (1 - s));
    tanh.push_back(dy[i] * (1 - t * t));
    const double density = std::exp(-g * g / 2) / std::sqrt(2 * M_PI);
    gelu.push_back(dy[i] * (normal_cdf(g) + g * density));
  }
  // Three roundings of f32; 1 - t * t and the two terms of gelu cancel.
  const Tolerance f32{.relative = 1e-6, .absolute = 3e-7};
  expect_close(unary_backward<float>(UnaryOp::relu, relu_y, dy), relu, {}, "relu");
  expect_close(unary_backward<float>(UnaryOp::sigmoid, sigmoid_y, dy), sigmoid, f32, "sigmoid");
  expect_close(unary_backward<float>(UnaryOp::tanh, tanh_y, dy), tanh, f32, "tanh");
  expect_close(unary_backward<float>(UnaryOp::gelu, gelu_x, dy), gelu, f32, "gelu");
  expect_close(unary_backward<double>(UnaryOp::gelu, gelu_x, dy), gelu, {1e-15, 1e-15}, "gelu");
  expect_close(unary_backward<double>(UnaryOp::sigmoid, sigmoid_y, dy), sigmoid, {1e-15},
               "sigmoid");
}

template <class T>
Values slopes(UnaryOp op, const Values& x, double alpha, double beta) {
  const Shape shape{int64_t(x.size())};
  const Guarded<T> saved(shape, x), dy(shape, Values(x.size(), 1)), dx(shape);
  run(kernels::UnaryBackward{
      .saved = saved, .dy = dy, .dx = dx, .op = op, .alpha = alpha, .beta = beta});
  EXPECT_TRUE(dx.guards_intact());
  return dx.values();
}

// Against central differences of the kernels themselves in f64, which the tests above hold to the C
// library and PyTorch; not at kinks.
TEST(UnaryBackward, IsTheSlopeOfTheFunction) {
  struct Case {
    UnaryOp op;
    double alpha, beta;
  };
  const Case cases[] = {
      {UnaryOp::gelu_tanh, 1, 0}, {UnaryOp::silu, 1, 0},         {UnaryOp::mish, 1, 0},
      {UnaryOp::softplus, 1, 20}, {UnaryOp::softplus, -1, inf},  {UnaryOp::softplus, 2, 3},
      {UnaryOp::elu, 0.7, 1.5},   {UnaryOp::leaky_relu, 0.2, 0}, {UnaryOp::hardsigmoid, 1, 0},
      {UnaryOp::hardswish, 1, 0}, {UnaryOp::softsign, 1, 0},     {UnaryOp::clamp, -1.25, 2}};
  Values x = random_values(501, 9);
  for (double& v : x) v = double(float(6 * v + 0.0371));
  for (const Case& test : cases) {
    Values left = x, right = x, expected;
    for (double& v : left) v -= 1e-6;
    for (double& v : right) v += 1e-6;
    const Values low = unary<double>(test.op, left, test.alpha, test.beta),
                 high = unary<double>(test.op, right, test.alpha, test.beta);
    for (size_t i = 0; i < x.size(); ++i) expected.push_back((high[i] - low[i]) / 2e-6);
    const char* const what = kernels::to_string(test.op);
    // Differences of f64 are off by 1e-9 or so; f32 by a few roundings of values up to 6.
    expect_close(slopes<double>(test.op, x, test.alpha, test.beta), expected, {1e-8, 1e-8}, what);
    expect_close(slopes<float>(test.op, x, test.alpha, test.beta), expected, {1e-6, 1e-6}, what);
  }
}

TEST(UnaryBackward, GivesZeroAtTheKinksAndKeepsNan) {
  expect_close(slopes<float>(UnaryOp::clamp, {-2, -1, 0, 1, 2}, -1, 1), {0, 1, 1, 1, 0}, {},
               "clamp");
  expect_close(slopes<float>(UnaryOp::hardsigmoid, {-3, 3, nan}, 1, 0), {0, 0, 1.f / 6}, {}, "");
  expect_close(slopes<float>(UnaryOp::hardswish, {-3, 3, nan}, 1, 0), {0, 1, nan}, {}, "hardswish");
  expect_close(slopes<float>(UnaryOp::leaky_relu, {0, nan}, 0.5, 0), {0.5, 0.5}, {}, "leaky_relu");
  expect_close(slopes<float>(UnaryOp::elu, {0, nan}, 0.5, 1), {0.5, nan}, {}, "elu");
  expect_close(unary_backward<float>(UnaryOp::relu, {0, 1, nan, 0}, {5, 5, 5, inf}), {0, 5, 5, 0},
               {}, "relu");
  expect_close(unary_backward<float>(UnaryOp::relu6, {0, 1, nan, 6, 0}, {5, 5, 5, 5, inf}),
               {0, 5, 5, 0, 0}, {}, "relu6");
}

// -- fill, copy, cast --------------------------------------------------------------------------

template <class T>
std::vector<T> filled(double value, int64_t n) {
  Tensor y = Tensor::empty({n}, {.dtype = dtype_of<T>});
  run(kernels::Fill{.y = y, .value = value});
  return y.to_vector<T>();
}

TEST(Fill, ConvertsTheValueToEveryDtype) {
  EXPECT_EQ(filled<float>(0.1, 3), std::vector<float>(3, 0.1f));
  EXPECT_EQ(filled<double>(0.1, 40'000), std::vector<double>(40'000, 0.1));
  EXPECT_EQ(filled<int32_t>(-7.9, 2), std::vector<int32_t>(2, -7));
  EXPECT_EQ(filled<int64_t>(1e15, 2), std::vector<int64_t>(2, 1'000'000'000'000'000));
  EXPECT_EQ(filled<uint8_t>(255, 2), std::vector<uint8_t>(2, 255));
  EXPECT_EQ(filled<bool>(0.5, 2), std::vector<bool>(2, true));
  EXPECT_EQ(float(filled<bfloat16>(1.0 + 1.0 / 256, 1)[0]), 1.0f);  // a tie: to even
  EXPECT_EQ(float(filled<float16>(65504, 1)[0]), 65504.0f);
  EXPECT_EQ(filled<float>(1, 0), std::vector<float>{});
}

template <class T>
std::vector<T> range(int64_t n, double first, double step, double last) {
  Tensor y = Tensor::empty({n}, {.dtype = dtype_of<T>});
  run(kernels::Arange{.y = y, .first = first, .step = step, .last = last});
  return y.to_vector<T>();
}

TEST(Arange, CountsInEveryDtypeFromBothEnds) {
  EXPECT_EQ(range<int64_t>(5, 3, -2, -5), (std::vector<int64_t>{3, 1, -1, -3, -5}));
  EXPECT_EQ(range<int32_t>(4, -1, 1, 2), (std::vector<int32_t>{-1, 0, 1, 2}));
  EXPECT_EQ(range<uint8_t>(3, 250, 1, 252), (std::vector<uint8_t>{250, 251, 252}));
  EXPECT_EQ(range<double>(4, 0.1, 0.3, 1.0), (std::vector<double>{0.1, 0.4, 0.7, 1.0}));
  EXPECT_EQ(range<float>(1, 0.1, 1, 0.1), std::vector<float>{0.1f});
  EXPECT_EQ(range<float>(0, 1, 1, 0), std::vector<float>{});
  const std::vector<float> long_one = range<float>(70'001, 0, 1. / 70'000, 1);
  for (size_t i = 0; i < long_one.size(); ++i) {
    ASSERT_EQ(long_one[i], float(double(i) / 70'000)) << i;
  }
}

TEST(Copy, CopiesBytesOfAnyDtype) {
  std::vector<uint8_t> bytes(200'001);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(i * 7);
  const Tensor x = Tensor::from(bytes, {200'001});
  Tensor y = Tensor::empty(x.shape(), {.dtype = DType::u8});
  run(kernels::Copy{.x = x, .y = y});
  EXPECT_EQ(y.to_vector<uint8_t>(), bytes);
}

template <class To, class From>
std::vector<To> cast(const std::vector<From>& values) {
  const Tensor x = Tensor::from(values, {int64_t(values.size())});
  Tensor y = Tensor::empty(x.shape(), {.dtype = dtype_of<To>});
  run(kernels::Cast{.x = x, .y = y});
  return y.template to_vector<To>();
}

TEST(Cast, TruncatesAndSaturatesFloats) {
  const std::vector<float> x{1.9f,  -1.9f,  300,      -300,      3e9f, -3e9f,
                             1e20f, -1e20f, INFINITY, -INFINITY, NAN};
  constexpr int32_t low32 = INT32_MIN, high32 = INT32_MAX;
  constexpr int64_t low64 = INT64_MIN, high64 = INT64_MAX;
  EXPECT_EQ((cast<int32_t>(x)), (std::vector<int32_t>{1, -1, 300, -300, high32, low32, high32,
                                                      low32, high32, low32, 0}));
  EXPECT_EQ((cast<int64_t>(x)),
            (std::vector<int64_t>{1, -1, 300, -300, 3'000'000'000, -3'000'000'000, high64, low64,
                                  high64, low64, 0}));
  EXPECT_EQ((cast<uint8_t>(x)), (std::vector<uint8_t>{1, 0, 255, 0, 255, 0, 255, 0, 255, 0, 0}));
  EXPECT_EQ((cast<int32_t>(std::vector<double>{2147483647.0, 2147483648.0, -2147483649.0})),
            (std::vector<int32_t>{high32, high32, low32}));
}

TEST(Cast, MakesBooleansOfWhatIsNotZero) {
  EXPECT_EQ((cast<bool>(std::vector<float>{0, -0.0f, 0.25f, NAN})),
            (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ((cast<bool>(std::vector<int64_t>{0, int64_t(1) << 40})),
            (std::vector<bool>{false, true}));
  const std::vector<uint8_t> ones{0, 1};
  EXPECT_EQ((cast<float>(Tensor::from<uint8_t>(ones, {2}).to_vector<uint8_t>())),
            (std::vector<float>{0, 1}));
}

TEST(Cast, MakesBytesOfBooleansAndBack) {
  const Tensor x = Tensor::from<bool>({true, false, true}, {3});
  const Tensor bytes = Tensor::full({3}, 7, {.dtype = DType::u8});
  const Tensor back = Tensor::empty({3}, {.dtype = DType::boolean});
  run(kernels::Cast{.x = x, .y = bytes});
  run(kernels::Cast{.x = bytes, .y = back});
  EXPECT_EQ(bytes.to_vector<uint8_t>(), (std::vector<uint8_t>{1, 0, 1}));
  EXPECT_EQ(back.to_vector<bool>(), (std::vector<bool>{true, false, true}));
}

TEST(Cast, WrapsIntegersAndKeepsSmallOnesBetweenAllDtypes) {
  EXPECT_EQ((cast<uint8_t>(std::vector<int32_t>{256 + 5, -1})), (std::vector<uint8_t>{5, 255}));
  EXPECT_EQ((cast<int32_t>(std::vector<int64_t>{(int64_t(1) << 32) + 7})),
            (std::vector<int32_t>{7}));
  // 0, 1, 7 and 100 are exact everywhere; a way through each dtype ends where it began.
  const DType dtypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                          DType::i32, DType::i64,  DType::u8};
  const std::vector<float> values{0, 1, 7, 100};
  for (DType first : dtypes) {
    for (DType second : dtypes) {
      const Tensor x = Tensor::from(values, {4});
      Tensor a = Tensor::empty({4}, {.dtype = first}), b = Tensor::empty({4}, {.dtype = second});
      Tensor back = Tensor::empty({4});
      run(kernels::Cast{.x = x, .y = a});
      run(kernels::Cast{.x = a, .y = b});
      run(kernels::Cast{.x = b, .y = back});
      EXPECT_EQ(back.to_vector<float>(), values) << name(first) << " to " << name(second);
    }
  }
}

TEST(Cast, RoundsToTheNearest16BitFloat) {
  // By hand: bf16 keeps 8 significant bits, f16 11; ties go to even.
  const auto bf16 = cast<bfloat16>(std::vector<float>{1.00390625f, 1.01171875f, 3.0e38f, NAN});
  EXPECT_EQ(float(bf16[0]), 1.0f);
  EXPECT_EQ(float(bf16[1]), 1.015625f);
  EXPECT_NEAR(float(bf16[2]), 3.0e38f, 1e36f);
  EXPECT_TRUE(std::isnan(float(bf16[3])));
  const auto f16 = cast<float16>(std::vector<double>{1.00048828125, 1.00146484375, 1e6, 6e-8});
  EXPECT_EQ(float(f16[0]), 1.0f);
  EXPECT_EQ(float(f16[1]), 1.001953125f);
  EXPECT_EQ(float(f16[2]), INFINITY);
  EXPECT_EQ(float(f16[3]), 0x1p-24f);
}

}  // namespace
}  // namespace adret
