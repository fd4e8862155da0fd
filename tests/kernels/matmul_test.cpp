// Matrix products and the linear layer's kernels against loops in f64.
#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

#include <adret/core/kernels/kernel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace adret {
namespace {

using namespace test;
using kernels::Activation;

template <class T>
void check(const Guarded<T>& actual, const Sums& expected, const std::string& what) {
  expect_sums<T>(actual.values(), expected, what);
  EXPECT_TRUE(actual.guards_intact()) << what << " wrote beyond its output";
}

// batch, rows, columns, depth
const MatmulSizes matmul_cases[] = {
    {1, 1, 1, 1},     {1, 5, 7, 3},      {1, 64, 10, 84},   {1, 33, 130, 129},  {1, 1, 300, 40},
    {1, 300, 1, 40},  {1, 200, 300, 70}, {1, 17, 9, 1000},  {5, 8, 12, 6},      {3, 70, 65, 50},
    {4, 200, 16, 90}, {1, 4, 6, 0},      {1, 0, 6, 4},      {1, 3, 0, 4},       {0, 3, 4, 5},
    {2, 1, 64, 64},   {1, 160, 48, 256}, {1, 129, 257, 33}, {1, 10, 256, 2048}, {1, 65, 31, 4100},
};

std::string name_of(const MatmulSizes& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.rows) + "x" + std::to_string(s.columns) +
         "x" + std::to_string(s.depth);
}

// Matrices instead of batches of one, so that both ranks are met.
Shape shape_of(const Shape& batched) { return batched[0] == 1 ? batched.without(0) : batched; }

// Multiples of 1/1024 in -1..1, which TF32 holds: products of them are exact, so that sums are to
// be as good as without TF32.
Values tf32_values(int64_t count, uint32_t seed) {
  Values values = random_values(count, seed);
  for (double& v : values) v = std::round(v * 1024) / 1024;
  return values;
}
Values values_for(MathMode math, int64_t count, uint32_t seed) {
  return math == MathMode::tf32 ? tf32_values(count, seed) : random_values(count, seed);
}

template <class T>
Guarded<T> matmul_on(const MatmulSizes& s, const Values& a, const Values& b, const Values* y0,
                     MathMode math) {
  Guarded<T> y = y0 ? Guarded<T>(shape_of(s.y()), *y0) : Guarded<T>(shape_of(s.y()));
  run(kernels::Matmul{.a = Guarded<T>(shape_of(s.a()), a),
                      .b = Guarded<T>(shape_of(s.b()), b),
                      .y = y,
                      .transpose_a = s.transpose_a,
                      .transpose_b = s.transpose_b,
                      .accumulate = y0 != nullptr,
                      .math = math});
  return y;
}

class Matmul : public ::testing::TestWithParam<MatmulSizes> {};

template <class T>
void check_matmul(const MatmulSizes& s, MathMode math = MathMode::exact) {
  const std::string what =
      std::string(s.transpose_a ? "a^T " : "a ") + (s.transpose_b ? "b^T" : "b");
  const Values a = values_for(math, s.a().numel(), 1);
  const Values b = values_for(math, s.b().numel(), 2);
  const Values y = random_values(s.y().numel(), 3);
  check(matmul_on<T>(s, a, b, nullptr, math), test::matmul(s, a, b, {}), what);
  check(matmul_on<T>(s, a, b, &y, math), test::matmul(s, a, b, y), what + " accumulated");
}

TEST_P(Matmul, EqualsTheDefinitionHoweverOperandsAreTurned) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      MatmulSizes sizes = GetParam();
      sizes.transpose_a = transpose_a;
      sizes.transpose_b = transpose_b;
      check_matmul<float>(sizes);
      check_matmul<float>(sizes, MathMode::tf32);
      check_matmul<double>(sizes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Matmul, ::testing::ValuesIn(matmul_cases),
                         [](const auto& test) { return name_of(test.param); });

struct LinearCase {
  int64_t batch, in, out;
};

const LinearCase linear_cases[] = {
    {64, 784, 256}, {64, 256, 10}, {256, 84, 10},  {7, 400, 120},  {1, 120, 84},
    {3, 1, 1},      {2, 5, 3},     {33, 17, 50},   {300, 31, 129}, {0, 6, 4},
    {700, 161, 10}, {5, 0, 3},     {1024, 84, 10}, {65, 1, 33},    {16, 2304, 32},
};

template <class T>
struct LinearOperands {
  LinearCase c;
  MathMode math = MathMode::exact;
  Values x = values_for(math, c.batch* c.in, 1);
  Values weight = values_for(math, c.out* c.in, 2);
  Values bias = random_values(c.out, 3);
  Values dy = values_for(math, c.batch* c.out, 4);

  Shape x_shape() const { return {c.batch, c.in}; }
  Shape weight_shape() const { return {c.out, c.in}; }
  Shape y_shape() const { return {c.batch, c.out}; }

  Guarded<T> forward(bool with_bias, Activation activation) const {
    Guarded<T> y(y_shape());
    const Guarded<T> bias_operand({c.out}, bias);
    run(kernels::LinearForward{.x = Guarded<T>(x_shape(), x),
                               .weight = Guarded<T>(weight_shape(), weight),
                               .bias = with_bias ? bias_operand : TensorView(),
                               .y = y,
                               .activation = activation,
                               .math = math});
    return y;
  }
  // y and what the gelu is of.
  std::pair<Guarded<T>, Guarded<T>> forward_gelu(Activation activation) const {
    Guarded<T> y(y_shape()), before(y_shape());
    run(kernels::LinearForward{.x = Guarded<T>(x_shape(), x),
                               .weight = Guarded<T>(weight_shape(), weight),
                               .bias = Guarded<T>({c.out}, bias),
                               .y = y,
                               .before = before,
                               .activation = activation,
                               .math = math});
    return {y, before};
  }
  Guarded<T> backward_input(Activation activation = Activation::none) const {
    Guarded<T> dx(x_shape());
    const Guarded<T> saved(x_shape(), x);
    run(kernels::LinearBackwardInput{
        .dy = Guarded<T>(y_shape(), dy),
        .weight = Guarded<T>(weight_shape(), weight),
        .saved = activation == Activation::none ? TensorView() : TensorView(saved),
        .dx = dx,
        .activation = activation,
        .math = math});
    return dx;
  }
  void backward_weight(TensorView dweight, TensorView dbias) const {
    run(kernels::LinearBackwardWeight{.x = Guarded<T>(x_shape(), x),
                                      .dy = Guarded<T>(y_shape(), dy),
                                      .dweight = dweight,
                                      .dbias = dbias,
                                      .math = math});
  }
};

double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
// d(x Phi(x))/dx = Phi(x) + x phi(x).
double gelu_slope(double x) {
  return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}

// x/2 (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), and its derivative.
double gelu_tanh(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / 2 * (1 + std::tanh(u));
}
double gelu_tanh_slope(double x) {
  const double root = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

template <class T>
void check_linear(const LinearCase& c, MathMode math = MathMode::exact) {
  const LinearOperands<T> operands{c, math};
  const MatmulSizes forward{1, c.batch, c.out, c.in, false, true};
  check(operands.forward(false, Activation::none),
        test::matmul(forward, operands.x, operands.weight, {}), "forward");
  Values bias_rows;
  for (int64_t i = 0; i < c.batch; ++i) {
    bias_rows.insert(bias_rows.end(), operands.bias.begin(), operands.bias.end());
  }
  Sums expected = test::matmul(forward, operands.x, operands.weight, bias_rows);
  check(operands.forward(true, Activation::none), expected, "forward with bias");
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh}) {
    Sums activated = expected;
    for (double& y : activated.value) {
      y = activation == Activation::gelu ? y * normal_cdf(y) : gelu_tanh(y);
    }
    const auto [gelu, before] = operands.forward_gelu(activation);
    check(gelu, activated, "forward with bias and GELU");
    check(before, expected, "what GELU is of");
    check(operands.forward(true, activation), activated, "forward with GELU alone");
  }
  for (double& y : expected.value) y = std::max(y, 0.0);
  check(operands.forward(true, Activation::relu), expected, "forward with bias and ReLU");

  const Sums dx = test::matmul({1, c.batch, c.in, c.out}, operands.dy, operands.weight, {});
  check(operands.backward_input(), dx, "backward input");
  Sums through_relu = dx, through_gelu = dx, through_gelu_tanh = dx;
  for (size_t i = 0; i < operands.x.size(); ++i) {
    through_relu.value[i] *= operands.x[i] > 0 ? 1 : 0;
    through_gelu.value[i] *= gelu_slope(operands.x[i]);
    through_gelu_tanh.value[i] *= gelu_tanh_slope(operands.x[i]);
  }
  check(operands.backward_input(Activation::relu), through_relu, "backward input of ReLU");
  check(operands.backward_input(Activation::gelu), through_gelu, "backward input of GELU");
  check(operands.backward_input(Activation::gelu_tanh), through_gelu_tanh,
        "backward input of GELU by tanh");
  const Sums dweight_expected =
      test::matmul({1, c.out, c.in, c.batch, true, false}, operands.dy, operands.x, {});
  const Sums dbias_expected = test::column_sums(operands.dy, c.out);
  const Guarded<T> dweight(operands.weight_shape()), dbias({c.out});
  operands.backward_weight(dweight, dbias);
  check(dweight, dweight_expected, "backward weight");
  check(dbias, dbias_expected, "backward bias");
  const Guarded<T> weight_alone(operands.weight_shape()), bias_alone({c.out});
  operands.backward_weight(weight_alone, {});
  check(weight_alone, dweight_expected, "backward weight without bias");
  operands.backward_weight({}, bias_alone);
  check(bias_alone, dbias_expected, "backward bias without weight");
}

std::string name_of(const LinearCase& c) {
  return std::to_string(c.batch) + "x" + std::to_string(c.in) + "x" + std::to_string(c.out);
}

class Linear : public ::testing::TestWithParam<LinearCase> {};

TEST_P(Linear, EqualsTheDefinition) {
  check_linear<float>(GetParam());
  check_linear<float>(GetParam(), MathMode::tf32);
  check_linear<double>(GetParam());
}

TEST_P(Linear, BitsDoNotDependOnTheNumberOfThreads) {
  const LinearOperands<float> operands{GetParam()};
  expect_same_for_any_threads([&] {
    const Guarded<float> dweight(operands.weight_shape()), dbias({operands.c.out});
    operands.backward_weight(dweight, dbias);
    return std::vector{operands.forward(true, Activation::relu).exact(),
                       operands.backward_input().exact(), dweight.exact(), dbias.exact()};
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, Linear, ::testing::ValuesIn(linear_cases),
                         [](const auto& test) { return name_of(test.param); });

// Factors are rounded to nearest; a truncated one would lose 3/4 of a place in each term.
TEST(Matmul, TF32RoundsToNearest) {
  constexpr int64_t depth = 16;
  const double x = 1 + 0.75 * 0x1p-10;
  const Guarded<float> y({4, 4});
  run(kernels::Matmul{.a = Guarded<float>({4, depth}, Values(4 * depth, x)),
                      .b = Guarded<float>({depth, 4}, Values(4 * depth, 1)),
                      .y = y,
                      .math = MathMode::tf32});
  for (const float value : y.exact()) EXPECT_NEAR(value, depth * x, depth * 0.3 * 0x1p-10);
}

// By hand: [1 2; 3 4] [5 6; 7 8] = [19 22; 43 50].
TEST(Matmul, AProductByHand) {
  const Guarded<float> y({2, 2});
  run(kernels::Matmul{.a = Guarded<float>({2, 2}, {1, 2, 3, 4}),
                      .b = Guarded<float>({2, 2}, {5, 6, 7, 8}),
                      .y = y});
  EXPECT_EQ(y.exact(), (std::vector<float>{19, 22, 43, 50}));
}

TEST(Linear, ReluKeepsNaN) {
  const Guarded<float> y({1, 3});
  run(kernels::LinearForward{.x = Guarded<float>({1, 1}, {1}),
                             .weight = Guarded<float>({3, 1}, {NAN, -2, 2}),
                             .y = y,
                             .activation = Activation::relu});
  EXPECT_TRUE(std::isnan(y.exact()[0]));
  EXPECT_EQ(y.exact()[1], 0);
  EXPECT_EQ(y.exact()[2], 2);
}

// The same at a size that other code may compute.
TEST(Linear, ReluKeepsNaNInALargeProduct) {
  constexpr int64_t size = 128;
  Values x = random_values(size * size, 1);
  x[3 * size + 5] = NAN;
  const Guarded<float> y({size, size}), bias({size}, Values(size, -100));
  run(kernels::LinearForward{.x = Guarded<float>({size, size}, x),
                             .weight = Guarded<float>({size, size}, random_values(size * size, 2)),
                             .bias = bias,
                             .y = y,
                             .activation = Activation::relu});
  const std::vector<float> actual = y.exact();
  for (int64_t i = 0; i < size * size; ++i) {
    const float value = actual[size_t(i)];
    ASSERT_TRUE(i / size == 3 ? std::isnan(value) : value == 0) << "element " << i << ": " << value;
  }
}

}  // namespace
}  // namespace adret
