// Elementwise arithmetic: values, broadcasting, derivatives and errors.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include <limits>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

constexpr double infinity = std::numeric_limits<double>::infinity();
using Inputs = std::vector<Tensor>;

TEST(Arithmetic, FollowsNumPysBroadcasting) {
  const Tensor a = Tensor::from({1.0, 2.0, 3.0}, {3, 1}), b = Tensor::from({10.0, 20.0}, {2});
  expect_values(a + b, {3, 2}, {11, 21, 12, 22, 13, 23});
  expect_values(a - b, {3, 2}, {-9, -19, -8, -18, -7, -17});
  expect_values(a * b, {3, 2}, {10, 20, 20, 40, 30, 60});
  expect_values(a / b, {3, 2}, {0.1, 0.05, 0.2, 0.1, 0.3, 0.15});
}

TEST(Arithmetic, TakesScalarsOnBothSides) {
  const Tensor x = Tensor::from({1.0f, 4.0f}, {2});
  expect_values(x + 2, {2}, {3, 6});
  expect_values(2 - x, {2}, {1, -2});
  expect_values(x * 3, {2}, {3, 12});
  expect_values(x / 4, {2}, {0.25, 1});
  expect_values(2 / x, {2}, {2, 0.5});
  expect_values(-x, {2}, {-1, -4});
  EXPECT_EQ((x + 2).dtype(), DType::f32);
}

TEST(Arithmetic, HasDerivativesThroughBroadcasting) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {{}, {2, 2}}, {{0, 3}, {3}}};
  for (const auto& [a, b] : cases) {
    SCOPED_TRACE(to_string(a) + to_string(b));
    const Inputs inputs = {variable(a), positive_variable(b, 5)};
    expect_gradients([](const Inputs& in) { return in[0] + in[1]; }, inputs);
    expect_gradients([](const Inputs& in) { return in[0] - in[1]; }, inputs);
    expect_gradients([](const Inputs& in) { return in[0] * in[1]; }, inputs);
    expect_gradients([](const Inputs& in) { return in[0] / in[1]; }, inputs);
    expect_gradients([](const Inputs& in) { return maximum(in[0], in[1]); }, inputs);
    expect_gradients([](const Inputs& in) { return minimum(in[0], in[1]); }, inputs);
    const Inputs positive = {positive_variable(a), variable(b, 5)};
    expect_gradients([](const Inputs& in) { return pow(in[0], in[1]); }, positive);
  }
}

TEST(Arithmetic, HasDerivativesOfFunctionsOfOneOperand) {
  const Inputs any = {variable({2, 3})}, positive = {positive_variable({5})};
  expect_gradients([](const Inputs& in) { return affine(in[0], -2.5, 1); }, any);
  expect_gradients([](const Inputs& in) { return exp(in[0]); }, any);
  expect_gradients([](const Inputs& in) { return abs(in[0]); }, any);
  expect_gradients([](const Inputs& in) { return square(in[0]); }, any);
  expect_gradients([](const Inputs& in) { return reciprocal(in[0], 3); }, any);
  expect_gradients([](const Inputs& in) { return pow(in[0], 3); }, any);
  expect_gradients([](const Inputs& in) { return pow(in[0], 0); }, any);
  expect_gradients([](const Inputs& in) { return log(in[0]); }, positive);
  expect_gradients([](const Inputs& in) { return sqrt(in[0]); }, positive);
  expect_gradients([](const Inputs& in) { return pow(in[0], -0.5); }, positive);
}

TEST(Arithmetic, ComputesOnlyTheGradientThatIsNeeded) {
  const Tensor a = variable({2}), constant = sequence({2}, 7);
  sum(a / constant).backward();
  sum(constant * a).backward();
  EXPECT_FALSE(constant.grad().defined());
  const std::vector<double> c = constant.to_vector<double>();
  expect_values(a.grad(), {2}, {1 / c[0] + c[0], 1 / c[1] + c[1]});
}

TEST(Sign, HasAZeroDerivativeThatDoesNotStopABackward) {
  const Tensor x = leaf({-2, 0, 3});
  expect_values(sign(x), {3}, {-1, 0, 1});
  expect_values(grad({sum(sign(x))}, {x})[0], {3}, {0, 0, 0});
  expect_values(grad({sum(sign(x) * x)}, {x})[0], {3}, {-1, 0, 1});
}

TEST(Abs, HasDerivativeZeroAtZero) {
  const Tensor x = leaf({-2, 0, 3});
  sum(abs(x)).backward();
  expect_values(x.grad(), {3}, {-1, 0, 1});
}

TEST(Maximum, SharesTheGradientOfEqualElements) {
  const Tensor a = leaf({1, 2, 3, -infinity}), b = leaf({2, 2, 2, -infinity});
  sum(maximum(a, b)).backward();
  expect_values(a.grad(), {4}, {0, 0.5, 1, 0.5});
  expect_values(b.grad(), {4}, {1, 0.5, 0, 0.5});
  const std::vector<Tensor> of_minimum = grad({sum(minimum(a, b))}, {a, b});
  expect_values(of_minimum[0], {4}, {1, 0.5, 0, 0.5});
  expect_values(of_minimum[1], {4}, {0, 0.5, 1, 0.5});
}

// Values: PyTorch 1.13.
TEST(Pow, IsFiniteWhereTheBaseOrTheExponentIsZero) {
  const Tensor x = leaf({0.5, 2, 0, 3}), exponent = leaf({2, -1, 1, 0});
  const Tensor y = pow(x, exponent);
  expect_values(y, {4}, {0.25, 0.5, 0, 1});
  const std::vector<Tensor> d = grad({sum(y)}, {x, exponent});
  expect_values(d[0], {4}, {1, -0.25, 1, 0});
  expect_values(d[1], {4}, {-0.1732867951, 0.3465735903, 0, 1.098612289});

  const Tensor zero = leaf({0, 0, 0});
  sum(pow(zero, 2) + pow(zero, 1) + pow(zero, 0)).backward();
  expect_values(zero.grad(), {3}, {1, 1, 1});
  const Tensor nothing = leaf({0});
  expect_values(grad({pow(zero, nothing)}, {zero},
                     {.grad_outputs = {Tensor::ones({3}, {.dtype = DType::f64})}})[0],
                {3}, {0, 0, 0});
}

TEST(Comparison, GivesBooleansOfAnyDtypeWithoutAGradient) {
  const Tensor a = leaf({1, 2, 3}), b = leaf({2, 2, 2});
  EXPECT_EQ(less(a, b).to_vector<bool>(), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(less_equal(a, b).to_vector<bool>(), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(greater(a, b).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(greater_equal(a, b).to_vector<bool>(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(not_equal(a, b).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_FALSE(equal(a, b).requires_grad());
  const Tensor labels = Tensor::from({3, 1}, {2}), wanted = Tensor::from({3}, {1});
  EXPECT_EQ(equal(labels, wanted).to_vector<bool>(), (std::vector<bool>{true, false}));
}

TEST(Arithmetic, RefusesWhatDoesNotGoTogether) {
  const Tensor f32 = Tensor::ones({2, 3}), f64 = Tensor::ones({3}, {.dtype = DType::f64});
  const Tensor i32 = Tensor::from({1, 2}, {2});
  expect_error<ShapeError>([&] { return f32 + f64; },
                           "[add] a (2, 3) is f32, b (3,) is f64; dtypes must be equal, convert "
                           "one with to(dtype)");
  expect_error<ShapeError>([&] { return f32 * Tensor::ones({2}); },
                           "[multiply] shapes (2, 3) and (2,) do not broadcast");
  expect_error<ShapeError>([&] { return i32 - f32; },
                           "[subtract] a (2,) is i32, b (2, 3) is f32; dtypes must be equal");
  expect_error<ShapeError>([&] { return exp(i32); }, "[exp] x (2,) is i32");
  expect_error<Error>([&] { return f32 + Tensor(); }, "undefined tensor");
}

// Where nothing else leads from x to the loss, x has no gradient, rather than one that is 0.
TEST(FlatFunctions, HandNoGradientOn) {
  const std::vector<std::pair<const char*, Tensor (*)(const Tensor&)>> functions = {
      {"sign", sign},   {"floor", floor}, {"ceil", ceil},
      {"round", round}, {"trunc", trunc}, {"pow", [](const Tensor& x) { return pow(x, 0); }}};
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    const Tensor x = leaf({-1.5, 0, 0.25, 2});
    sum(function(x)).backward();
    EXPECT_FALSE(x.grad().defined());
    expect_values(grad({sum(function(x))}, {x})[0], {4}, {0, 0, 0, 0});
    sum(function(x) + x * 3).backward();
    expect_values(x.grad(), {4}, {3, 3, 3, 3});
  }
}

}  // namespace
}  // namespace adret
