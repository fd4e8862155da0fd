// Functions of one operand, element by element.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/shrink.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

constexpr double inf = std::numeric_limits<double>::infinity();

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double between(double x, double low, double high) { return std::min(std::max(x, low), high); }
double sign_of(double x) { return double((x > 0) - (x < 0)); }
double gelu_tanh_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double elu_of(double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); }

// A function, its formula, and between which numbers to try it.
struct Unary {
  const char* name;
  Tensor (*call)(const Tensor&);
  double (*formula)(double);
  double low = -2, high = 2;
};

const Unary everywhere[] = {
    {"exp", exp, std::exp},
    {"exp2", exp2, std::exp2},
    {"expm1", expm1, std::expm1},
    {"erf", erf, std::erf},
    {"erfc", erfc, std::erfc},
    {"sin", sin, std::sin, -20, 20},
    {"cos", cos, std::cos, -20, 20},
    {"tan", tan, std::tan, -1.25, 1.25},
    {"asin", asin, std::asin, -0.875, 0.875},
    {"acos", acos, std::acos, -0.875, 0.875},
    {"atan", atan, std::atan, -9, 9},
    {"sinh", sinh, std::sinh, -4, 4},
    {"cosh", cosh, std::cosh, -4, 4},
    {"abs", abs, std::abs},
    {"sign", sign, sign_of},
    {"negative", negative, [](double x) { return -x; }},
    {"square", square, [](double x) { return x * x; }},
    {"floor", floor, std::floor, -9, 9},
    {"ceil", ceil, std::ceil, -9, 9},
    {"round", round, std::nearbyint, -9, 9},
    {"trunc", trunc, std::trunc, -9, 9},
    {"frac", frac, [](double x) { return x - std::trunc(x); }, -9, 9},
    {"log", log, std::log, 0.25, 9},
    {"log2", log2, std::log2, 0.25, 9},
    {"log1p", log1p, std::log1p, -0.75, 9},
    {"sqrt", sqrt, std::sqrt, 0.25, 9},
    {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.25, 9},
    {"relu", relu, [](double x) { return std::max(x, 0.0); }},
    {"relu6", relu6, [](double x) { return between(x, 0, 6); }, -9, 9},
    {"sigmoid", sigmoid, sigmoid_of, -9, 9},
    {"tanh", tanh, std::tanh, -4, 4},
    {"gelu", gelu, [](double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }, -4, 4},
    {"gelu_tanh", gelu_tanh, gelu_tanh_of, -4, 4},
    {"silu", silu, [](double x) { return x * sigmoid_of(x); }, -9, 9},
    {"mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, -4, 4},
    {"softsign", softsign, [](double x) { return x / (1 + std::abs(x)); }, -9, 9},
    {"logsigmoid", logsigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -9, 9},
    {"hardsigmoid", hardsigmoid, [](double x) { return between(x / 6 + 0.5, 0, 1); }, -9, 9},
    {"hardswish", hardswish, [](double x) { return x * between(x / 6 + 0.5, 0, 1); }, -9, 9},
    {"tanhshrink", tanhshrink, [](double x) { return x - std::tanh(x); }, -9, 9},
    {"selu", selu, [](double x) { return 1.05070098735548 * elu_of(x, 1.67326324235437); }},
};

TEST(UnaryProperties, FollowTheFormulaOfEachElement) {
  for (const Unary& test : everywhere) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shape shape = draw.shape(0, 4);
      const Array x(draw.numbers(shape, DType::f64, test.low, test.high));
      const Array y = tabulate(shape, [&](const Index& at) { return test.formula(x.at(at)); });
      const Tensor in = Tensor::from(x.values, shape);
      expect_array(test.call(in.to(draw.wide())), y);
      expect_slope([&](const Inputs& in) { return test.call(in[0]); }, {in}, draw);
    });
  }
}

TEST(UnaryProperties, OfIntegersAreExact) {
  for (const Unary& test : everywhere) {
    const std::string name = test.name;
    if (name != "abs" && name != "sign" && name != "negative") continue;
    for_random_cases(test.name, [&](Draw& draw) {
      const DType dtype = draw.chance() ? DType::i32 : DType::i64;
      const Tensor x = draw.integers(draw.shape(0, 4), -1000000, 1000000, dtype);
      const Array in(x);
      const Tensor y = test.call(x);
      EXPECT_EQ(y.dtype(), dtype);
      expect_array(y,
                   tabulate(x.shape(), [&](const Index& at) { return test.formula(in.at(at)); }));
    });
  }
}

TEST(UnaryProperties, QuestionsOfEachElement) {
  struct Question {
    const char* name;
    Tensor (*call)(const Tensor&);
    bool (*answer)(double);
  };
  const Question questions[] = {
      {"isnan", isnan, [](double x) { return std::isnan(x); }},
      {"isinf", isinf, [](double x) { return std::isinf(x); }},
      {"isfinite", isfinite, [](double x) { return std::isfinite(x); }},
      {"logical_not", logical_not, [](double x) { return x == 0; }},
  };
  for (const Question& test : questions) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shape shape = draw.shape(0, 4);
      std::vector<double> values;
      for (int64_t i = 0; i < shape.numel(); ++i) {
        values.push_back(draw.one_of<double>({0, 1, -2, inf, -inf, NAN}));
      }
      const Tensor x = draw.chance(0.2) ? draw.anything(shape) : Tensor::from(values, shape);
      const Array in(x);
      const Tensor y = test.call(x);
      EXPECT_EQ(y.dtype(), DType::boolean);
      expect_array(y, tabulate(shape, [&](const Index& at) { return test.answer(in.at(at)); }));
    });
  }
}

// -- with parameters ----------------------------------------------------------

// What a case of a function with parameters computes, and its formula.
struct Parametric {
  std::function<Tensor(const Tensor&)> call;
  std::function<double(double)> formula;
  double low = -4, high = 4;
};

void check(Draw& draw, const Parametric& test) {
  const Shape shape = draw.shape(0, 4);
  const Tensor in = draw.numbers(shape, DType::f64, test.low, test.high);
  const Array x(in);
  const Array y = tabulate(shape, [&](const Index& at) { return test.formula(x.at(at)); });
  expect_array(test.call(in.to(draw.wide())), y);
  expect_slope([&](const Inputs& in) { return test.call(in[0]); }, {in}, draw);
}

// Multiples of 1/64, which no operand is.
double kink(Draw& draw, double low, double high) { return draw.number(low, high) + 0.5 / 64; }

TEST(UnaryProperties, WithParametersFollowTheirFormulas) {
  for_random_cases("affine", [](Draw& draw) {
    const double scale = draw.number(-3, 3), shift = draw.number(-3, 3);
    check(draw, {[=](const Tensor& x) { return affine(x, scale, shift); },
                 [=](double x) { return scale * x + shift; }});
  });
  for_random_cases("reciprocal", [](Draw& draw) {
    const double numerator = draw.number(-3, 3);
    check(draw, {[=](const Tensor& x) { return reciprocal(x, numerator); },
                 [=](double x) { return numerator / x; }, 0.25, 4});
  });
  for_random_cases("pow", [](Draw& draw) {
    const double exponent = draw.one_of<double>({-2, -1, 0, 0.5, 1, 1.5, 2, 3, 3.75});
    check(draw, {[=](const Tensor& x) { return pow(x, exponent); },
                 [=](double x) { return std::pow(x, exponent); }, 0.25, 4});
  });
  for_random_cases("clamp", [](Draw& draw) {
    const double low = draw.chance(0.2) ? -inf : kink(draw, -4, 0);
    const double high = draw.chance(0.2) ? inf : kink(draw, 0, 4);
    check(draw, {[=](const Tensor& x) { return clamp(x, low, high); },
                 [=](double x) { return between(x, low, high); }});
  });
  for_random_cases("hardtanh", [](Draw& draw) {
    const double low = kink(draw, -4, 0), high = kink(draw, 0, 4);
    check(draw, {[=](const Tensor& x) { return hardtanh(x, low, high); },
                 [=](double x) { return between(x, low, high); }});
  });
  for_random_cases("leaky_relu", [](Draw& draw) {
    const double slope = draw.number(-1, 1);
    check(draw, {[=](const Tensor& x) { return leaky_relu(x, slope); },
                 [=](double x) { return x > 0 ? x : slope * x; }});
  });
  for_random_cases("elu", [](Draw& draw) {
    const double alpha = draw.number(0, 2);
    check(draw, {[=](const Tensor& x) { return elu(x, alpha); },
                 [=](double x) { return elu_of(x, alpha); }});
  });
}

TEST(UnaryProperties, OfShrinkagesFollowTheirFormulas) {
  for_random_cases("celu", [](Draw& draw) {
    const double alpha = draw.one_of<double>({1, 0.25, 1.5});
    check(draw, {[=](const Tensor& x) { return celu(x, alpha); },
                 [=](double x) { return x > 0 ? x : alpha * std::expm1(x / alpha); }});
  });
  for_random_cases("threshold", [](Draw& draw) {
    const double limit = kink(draw, -4, 4), value = draw.number(-3, 3);
    check(draw, {[=](const Tensor& x) { return threshold(x, limit, value); },
                 [=](double x) { return x > limit ? x : value; }});
  });
  for_random_cases("hardshrink", [](Draw& draw) {
    const double lambda = kink(draw, 0, 3);
    check(draw, {[=](const Tensor& x) { return hardshrink(x, lambda); },
                 [=](double x) { return std::abs(x) > lambda ? x : 0; }});
  });
  for_random_cases("softshrink", [](Draw& draw) {
    const double lambda = kink(draw, 0, 3);
    check(draw,
          {[=](const Tensor& x) { return softshrink(x, lambda); },
           [=](double x) { return std::abs(x) > lambda ? x - std::copysign(lambda, x) : 0; }});
  });
}

TEST(UnaryProperties, OfSoftplusWithThreshold) {
  for_random_cases("softplus", [](Draw& draw) {
    // A threshold far out, as the function jumps there.
    const double beta = draw.number(0.25, 3), threshold = 20 + draw.integer(0, 9);
    check(draw,
          {[=](const Tensor& x) { return softplus(x, {.beta = beta, .threshold = threshold}); },
           [=](double x) { return std::log1p(std::exp(beta * x)) / beta; }});
  });
}

TEST(UnaryProperties, ClampOfIntegersTakesAnyBounds) {
  for_random_cases("clamp", [](Draw& draw) {
    const DType dtype = draw.chance() ? DType::i32 : DType::i64;
    const Tensor x = draw.integers(draw.shape(0, 3), -9, 9, dtype);
    const double low = draw.one_of<double>({-inf, -1e30, -5, 0}),
                 high = draw.one_of<double>({0, 5, 1e30, inf});
    const Array in(x);
    expect_array(clamp(x, low, high), tabulate(x.shape(), [&](const Index& at) {
                   return between(in.at(at), low, high);
                 }));
  });
}

}  // namespace
}  // namespace adret
