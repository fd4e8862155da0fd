// What activation functions and their derivatives are far out and at the infinities: what they tend
// to there, where products as infinity times 0 would give NaN.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shrink.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

// Far out each is slope * x, or where its slope is 0 the limit.
struct Side {
  double slope = 0, limit = 0;
  double at(double x) const { return slope == 0 ? limit : slope * x; }
};
constexpr Side zero{}, one{.limit = 1}, minus_one{.limit = -1}, identity{.slope = 1};

struct Activation {
  std::string name;
  std::function<Tensor(const Tensor&)> function;
  Side left, right;
};

constexpr double selu_scale = 1.0507009873554804934, selu_alpha = 1.6732632423543772848;

std::vector<Activation> activations() {
  return {{"relu", relu, zero, identity},
          {"relu6", relu6, zero, {.limit = 6}},
          {"sigmoid", sigmoid, zero, one},
          {"tanh", tanh, minus_one, one},
          {"gelu", gelu, zero, identity},
          {"gelu_tanh", gelu_tanh, zero, identity},
          {"silu", silu, zero, identity},
          {"mish", mish, zero, identity},
          {"softsign", softsign, minus_one, one},
          {"logsigmoid", logsigmoid, identity, zero},
          {"hardsigmoid", hardsigmoid, zero, one},
          {"hardswish", hardswish, zero, identity},
          {"hardtanh", [](const Tensor& x) { return hardtanh(x); }, minus_one, one},
          {"softplus", [](const Tensor& x) { return softplus(x); }, zero, identity},
          {"elu", [](const Tensor& x) { return elu(x, 0.5); }, {.limit = -0.5}, identity},
          {"selu", selu, {.limit = -selu_scale * selu_alpha}, {.slope = selu_scale}},
          {"celu", [](const Tensor& x) { return celu(x, 2); }, {.limit = -2}, identity},
          {"leaky_relu",
           [](const Tensor& x) { return leaky_relu(x, 0.25); },
           {.slope = 0.25},
           identity},
          {"prelu",
           [](const Tensor& x) { return prelu(x, Tensor::full({1}, 0.25, {.dtype = x.dtype()})); },
           {.slope = 0.25},
           identity},
          {"threshold", [](const Tensor& x) { return threshold(x, 1, 7); }, {.limit = 7}, identity},
          {"hardshrink", [](const Tensor& x) { return hardshrink(x); }, identity, identity},
          {"softshrink", [](const Tensor& x) { return softshrink(x); }, identity, identity},
          {"tanhshrink", tanhshrink, identity, identity}};
}

// The relative difference that rounding to 16 bits explains, or to f32; 0 for two equal infinities.
double difference(double actual, double expected) {
  if (actual == expected) return 0;
  return std::abs(actual - expected) / std::max(1.0, std::abs(expected));
}

void expect_limits(const Activation& activation, DType dtype, double tolerance) {
  SCOPED_TRACE(activation.name + " of " + name(dtype));
  const double infinity = INFINITY, huge = dtype == DType::f16 ? 6e4 : 1e30;
  const std::vector<double> points{-infinity, -huge, -1e3, 1e3, huge, infinity};
  Tensor x = Tensor::from(points, {int64_t(points.size())}).to(dtype);
  x.set_requires_grad(true);
  const Tensor y = activation.function(x);
  const auto values_of = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
  const auto in = values_of(x), values = values_of(y);
  const auto slopes = values_of(grad({sum(y)}, {x}, {.retain_graph = true})[0]);
  const Tensor slope = grad({sum(y)}, {x}, {.create_graph = true})[0];
  const auto again = values_of(slope);  // by functions that can be differentiated
  for (size_t i = 0; i < points.size(); ++i) {
    const Side& side = points[i] < 0 ? activation.left : activation.right;
    // At 1e3 softsign and softshrink are on their way.
    const double near = std::abs(points[i]) == 1e3 ? std::max(2e-3, tolerance) : tolerance;
    EXPECT_LE(difference(values[i], side.at(in[i])), near) << points[i] << ": " << values[i];
    EXPECT_LE(difference(slopes[i], side.slope), near) << points[i] << ": " << slopes[i];
    EXPECT_LE(difference(again[i], side.slope), near) << points[i] << ": " << again[i];
  }
  if (!slope.requires_grad()) return;  // piecewise constant
  for (const double curvature : values_of(grad({sum(slope)}, {x})[0])) {
    EXPECT_NEAR(curvature, 0, 1e-6);
  }
}

TEST(ActivationLimits, AreValuesAndSlopesFarOut) {
  for (const Activation& activation : activations()) {
    expect_limits(activation, DType::f32, 1e-6);
    expect_limits(activation, DType::f64, 1e-15);
    expect_limits(activation, DType::f16, 1e-3);
    expect_limits(activation, DType::bf16, 8e-3);
  }
}

}  // namespace
}  // namespace adret
