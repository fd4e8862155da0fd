// Formulas as functions of tensors.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/pointwise.h>
#include <adret/core/decorators/profile.h>
#include <adret/core/error.h>

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/mirror.h"

namespace adret {

// Outside of the unnamed namespace, as most users' are.
struct Swish {
  ADRET_FN auto operator()(auto x) const { return x / (1 + exp(-x)); }
};

namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

struct Scaled {
  double scale;
  float shift;
  ADRET_FN auto operator()(auto x) const { return scale * x + shift; }
};

struct Gate {
  template <class T>
  ADRET_FN T operator()(T x, T gate) const {
    T y = x * sigmoid(gate);
    y += 0.25 * x;
    return y;
  }
};

struct Polar {
  ADRET_FN auto operator()(auto radius, auto angle) const {
    return std::tuple(radius * cos(angle), radius * sin(angle));
  }
};

TEST(Pointwise, HasTheFormulasValueAndDerivatives) {
  const Tensor x = variable({3, 5});
  const Tensor y = pointwise(Swish{}, x), expected = silu(x);
  expect_values(y, {3, 5}, expected.to_vector<double>(), 1e-14);
  expect_values(gradients(y, {x})[0], {3, 5}, gradients(expected, {x})[0].to_vector<double>(),
                1e-14);
  expect_gradients([](const Inputs& in) { return pointwise(Swish{}, in[0]); }, {variable({3, 5})});
}

TEST(Pointwise, TakesALambda) {
  const double slope = 0.3;
  const auto leaky = [slope](auto x) { return select(x > 0, x, slope * x); };
  const Tensor x = variable({4, 3});
  expect_values(pointwise(leaky, x), {4, 3}, leaky_relu(x, slope).to_vector<double>());
  expect_gradients([&](const Inputs& in) { return pointwise(leaky, in[0]); }, {x});
}

TEST(Pointwise, SelectsConstants) {
  const Tensor x = Tensor::from({-2.0, 0.0, 3.0, std::nan("")}, {4}).set_requires_grad(true);
  expect_values(pointwise([](auto x) { return select(x > 0, 1, 0.25); }, x), {4},
                {0.25, 0.25, 1, 0.25});
  const bool is_on = true;
  const auto window = [=](auto x) {
    return x * select((x < -1 && is_on) || (x != 0 && !(x <= 1)), 2, 0);
  };
  expect_values(pointwise(window, x), {4}, {-4, 0, 6, std::nan("")});
  expect_values(grad({sum(pointwise(window, x))}, {x})[0], {4}, {2, 0, 2, 2});
}

TEST(Pointwise, CapturesConstantsByValue) {
  Scaled formula{.scale = 2, .shift = -1};
  const Tensor x = leaf({1, 2, 3});
  const Tensor y = pointwise(formula, x);
  formula.scale = 100;  // too late
  expect_values(y, {3}, {1, 3, 5});
  expect_values(grad({sum(y)}, {x})[0], {3}, {2, 2, 2});
}

TEST(Pointwise, BroadcastsAndSumsGradients) {
  const auto gate = [](const Inputs& in) { return pointwise(Gate{}, in[0], in[1]); };
  expect_gradients(gate, {variable({3, 4}), variable({4}, 5)});
  expect_gradients(gate, {variable({3, 1}), variable({1, 4}, 5)});
  expect_gradients(gate, {variable({2, 3, 2}), variable({}, 5)});
  expect_gradients(gate, {variable({2, 1, 3, 1}), variable({4, 1, 2}, 5)});
}

TEST(Pointwise, OfNoElementsIsEmpty) {
  const Tensor x = variable({0, 4}), y = variable({4});
  const Tensor z = pointwise(Gate{}, x, y);
  EXPECT_EQ(z.shape(), Shape({0, 4}));
  const Inputs d = grad({sum(z)}, {x, y});
  EXPECT_EQ(d[0].shape(), Shape({0, 4}));
  expect_values(d[1], {4}, {0, 0, 0, 0});
}

TEST(Pointwise, GivesSeveralOutputs) {
  const Tensor r = variable({2, 3}), a = variable({3}, 5);
  const auto [x, y] = pointwise(Polar{}, r, a);
  expect_values(x, {2, 3}, (r * cos(a)).to_vector<double>());
  expect_values(y, {2, 3}, (r * sin(a)).to_vector<double>());
  expect_gradients(
      [](const Inputs& in) {
        const auto [x, y] = pointwise(Polar{}, in[0], in[1]);
        return x + 2 * square(y);
      },
      {r, a});
  // Each alone: no gradient arrives at the other.
  for (const size_t k : {0, 1}) {
    expect_gradients([k](const Inputs& in) { return pointwise(Polar{}, in[0], in[1])[k]; }, {r, a});
  }
}

TEST(Pointwise, GivesAnArrayOfOutputsAmongThemConstants) {
  const auto powers = [](auto x) { return std::array{x, x * x, decltype(x)(1)}; };
  const Tensor x = leaf({-2, 3});
  const std::array<Tensor, 3> y = pointwise(powers, x);
  expect_values(y[0], {2}, {-2, 3});
  expect_values(y[1], {2}, {4, 9});
  expect_values(y[2], {2}, {1, 1});
  expect_values(grad({sum(y[2])}, {x}, {.retain_graph = true})[0], {2}, {0, 0});
  expect_values(grad({sum(y[1])}, {x})[0], {2}, {-4, 6});
}

TEST(Pointwise, OfAnyMixOfOperandsThatNeedAGradient) {
  const auto product = [](auto a, auto b, auto c) { return a * exp(b) / (2 + sin(c)); };
  for (uint32_t mask = 0; mask < 8; ++mask) {
    Inputs in = {variable({3, 2}), variable({2}, 5), variable({3, 1}, 9)};
    for (size_t i = 0; i < 3; ++i) in[i].set_requires_grad(mask >> i & 1);
    const Tensor y = pointwise(product, in[0], in[1], in[2]);
    EXPECT_EQ(y.requires_grad(), mask != 0);
    if (mask == 0) continue;
    expect_gradients([&](const Inputs& x) { return pointwise(product, x[0], x[1], x[2]); }, in);
  }
}

TEST(Pointwise, TakesSixOperands) {
  const auto formula = [](auto a, auto b, auto c, auto d, auto e, auto f) {
    return a * b + tanh(c) * d - e / (2 + f * f);
  };
  expect_gradients(
      [&](const Inputs& x) { return pointwise(formula, x[0], x[1], x[2], x[3], x[4], x[5]); },
      {variable({2, 2}), variable({2}, 3), variable({}, 5), variable({2, 1}, 7),
       variable({2, 2}, 9), variable({1, 2}, 11)});
}

// Sizes about whole steps of the loops and about a chunk's end, in every dtype.
TEST(Pointwise, ComputesEveryDtypeAndSize) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const double tolerance = dtype == DType::f64   ? 1e-13
                             : dtype == DType::f32 ? 1e-6
                             : dtype == DType::f16 ? 2e-3
                                                   : 2e-2;
    for (const int64_t n : {1, 15, 16, 17, 255, 257, 4095, 4096, 4111, 9000}) {
      SCOPED_TRACE(to_string(dtype) + " " + std::to_string(n));
      Tensor x = sequence({n}).detach().to(dtype), bias = sequence({1}, 7).to(dtype);
      x.set_requires_grad(true), bias.set_requires_grad(true);
      const Tensor y = pointwise(Gate{}, x, bias);
      EXPECT_EQ(y.dtype(), dtype);
      const Tensor wide = x.detach().to(DType::f64), gate = sigmoid(bias.detach().to(DType::f64));
      expect_values(y.detach().to(DType::f64), {n}, (wide * (gate + 0.25)).to_vector<double>(),
                    tolerance);
      const Inputs d = grad({y}, {x}, {.grad_outputs = {Tensor::ones({n}, {.dtype = dtype})}});
      expect_values(d[0].to(DType::f64), {n},
                    std::vector<double>(size_t(n), gate.item<double>() + 0.25), tolerance);
    }
  }
}

// What an element gives does not depend on where it stands.
TEST(Pointwise, GivesTheSameBitsAtEveryPlace) {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 7) * 1.37f - 4;
  const std::vector<float> y = pointwise(Swish{}, Tensor::from(values, {5000})).to_vector();
  for (size_t i = 7; i < y.size(); ++i) ASSERT_EQ(y[i], y[i % 7]) << i;
}

// Beside the library's functions of the same names.
struct Named {
  const char* name;
  Tensor (*function)(const Tensor&);
  Tensor (*formula)(const Tensor&);
  double low = -1.5, high = 1.5;
};
#define ADRET_NAMED(name, ...)                                                        \
  Named {                                                                             \
#name, [](const Tensor& x) { return name(x); },                                     \
        [](const Tensor& x) { return pointwise([](auto x) { return name(x); }, x); } \
    __VA_OPT__(, ) __VA_ARGS__ \
  }
const Named functions[] = {
    ADRET_NAMED(exp),
    ADRET_NAMED(exp2),
    ADRET_NAMED(expm1),
    ADRET_NAMED(log, 0.1, 9),
    ADRET_NAMED(log2, 0.1, 9),
    ADRET_NAMED(log1p, -0.8, 9),
    ADRET_NAMED(sqrt, 0.1, 9),
    ADRET_NAMED(rsqrt, 0.1, 9),
    ADRET_NAMED(sin, -9, 9),
    ADRET_NAMED(cos, -9, 9),
    ADRET_NAMED(tan),
    ADRET_NAMED(asin, -0.9, 0.9),
    ADRET_NAMED(acos, -0.9, 0.9),
    ADRET_NAMED(atan, -9, 9),
    ADRET_NAMED(sinh),
    ADRET_NAMED(cosh),
    ADRET_NAMED(tanh, -9, 9),
    ADRET_NAMED(sigmoid, -9, 9),
    ADRET_NAMED(softplus, -50, 60),
    ADRET_NAMED(relu, -9, 9),
    ADRET_NAMED(sign, -9, 9),
    ADRET_NAMED(erf, -3, 3),
    ADRET_NAMED(erfc, -3, 3),
    ADRET_NAMED(abs),
    ADRET_NAMED(floor, -9, 9),
    ADRET_NAMED(ceil, -9, 9),
    ADRET_NAMED(round, -9, 9),
    ADRET_NAMED(trunc, -9, 9),
};

TEST(Pointwise, HasTheLibrarysFunctionsUnderTheirNames) {
  for (const Named& test : functions) {
    SCOPED_TRACE(test.name);
    const int64_t n = 61;
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(test.low + (test.high - test.low) * (double(i) + 0.37) / double(n));
    }
    const Tensor x = leaf(values);
    const Tensor y = test.formula(x), expected = test.function(x);
    expect_values(y, {n}, expected.to_vector<double>(), 1e-12);
    expect_values(gradients(y, {x})[0], {n}, gradients(expected, {x})[0].to_vector<double>(), 1e-9);
    expect_gradients([&](const Inputs& in) { return test.formula(in[0]); }, {x});
    const Tensor narrow = x.detach().to(DType::f32);
    expect_values(test.formula(narrow).to(DType::f64), {n},
                  test.function(narrow.to(DType::f64)).to_vector<double>(), 2e-5);
  }
}

TEST(Pointwise, HasFunctionsOfTwoOperands) {
  const Inputs x = {positive_variable({3, 4}), positive_variable({4}, 8)};
  const auto check = [&](auto formula, const TestFunction& expected) {
    const auto call = [&](const Inputs& in) { return pointwise(formula, in[0], in[1]); };
    expect_values(call(x), {3, 4}, expected(x).to_vector<double>(), 1e-12);
    expect_gradients(call, x);
  };
  check([](auto a, auto b) { return max(a, b); },
        [](const Inputs& in) { return maximum(in[0], in[1]); });
  check([](auto a, auto b) { return min(a, b); },
        [](const Inputs& in) { return minimum(in[0], in[1]); });
  check([](auto a, auto b) { return pow(a, b); },
        [](const Inputs& in) { return pow(in[0], in[1]); });
  check([](auto a, auto b) { return clamp(a - b, -0.5, max(b, 0.7)); },
        [](const Inputs& in) {
          return minimum(clamp(in[0] - in[1], -0.5, 9), clamp(in[1], 0.7, 9));
        });
  check([](auto a, auto b) { return select(a < b && b <= 1.0, a * a, 3 - b); },
        [](const Inputs& in) {
          const Tensor chosen =
              less(in[0], in[1]).to(DType::f64) * less_equal(in[1], in[1] * 0 + 1).to(DType::f64);
          return chosen * square(in[0]) + (1 - chosen) * (3 - in[1]);
        });
}

TEST(Pointwise, RaisesToConstantPowers) {
  const auto powers = [](auto x) {
    return pow(x, 2) + pow(x, 3) * pow(x, 1) + pow(x, -1.5) + pow(2.0, x) + pow(x, 0);
  };
  const auto expected = [](double x) {
    return x * x + std::pow(x, 4) + std::pow(x, -1.5) + std::pow(2.0, x) + 1;
  };
  const Tensor x = leaf({0.5, 1, 2.5});
  expect_values(pointwise(powers, x), {3}, {expected(0.5), expected(1), expected(2.5)}, 1e-12);
  expect_gradients([&](const Inputs& in) { return pointwise(powers, in[0]); }, {x});
}

TEST(Pointwise, RaisesZeroAsPowOfTensorsDoes) {
  const Tensor x = leaf({0, 0, 0, 2}), exponent = leaf({2, 1, 0, 3});
  const Tensor y = pointwise([](auto x, auto e) { return pow(x, e); }, x, exponent);
  const Inputs d = grad({sum(y)}, {x, exponent});
  const Inputs expected = grad({sum(pow(x, exponent))}, {x, exponent});
  expect_values(d[0], {4}, expected[0].to_vector<double>(), 1e-12);
  expect_values(d[1], {4}, expected[1].to_vector<double>(), 1e-12);
}

TEST(Pointwise, SharesTheSlopeAtATie) {
  const Tensor a = leaf({1, 0}), b = leaf({1, 2});
  const Tensor y = pointwise([](auto a, auto b) { return max(a, b); }, a, b);
  const Inputs d = grad({sum(y)}, {a, b});
  expect_values(d[0], {2}, {0.5, 0});
  expect_values(d[1], {2}, {0.5, 1});
}

TEST(Pointwise, KeepsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from({nan, 1.f}, {2});
  const auto first_is_nan = [&](const Tensor& y) { return std::isnan(y.to_vector()[0]); };
  EXPECT_TRUE(first_is_nan(pointwise([](auto x) { return max(x, 0); }, x)));
  EXPECT_TRUE(first_is_nan(pointwise([](auto x) { return min(0, x); }, x)));
  EXPECT_TRUE(first_is_nan(pointwise([](auto x) { return clamp(x, -1, 1); }, x)));
  EXPECT_TRUE(first_is_nan(pointwise(Swish{}, x)));
}

// Note [Infinite derivatives].
TEST(Pointwise, KeepsInfiniteDerivativesFromOtherOperands) {
  const Tensor x = leaf({2, 3}), y = leaf({0, 4});
  const Tensor z = pointwise([](auto x, auto y) { return x + sqrt(y); }, x, y);
  const Inputs d = grad({sum(z)}, {x, y});
  expect_values(d[0], {2}, {1, 1});
  EXPECT_EQ(d[1].to_vector<double>()[0], std::numeric_limits<double>::infinity());

  Tensor far = Tensor::from({-100.f, -1000.f, 1000.f}, {3});
  far.set_requires_grad(true);
  const Tensor flat = pointwise(Swish{}, far);
  const Tensor slope = grad({sum(flat)}, {far}, {.create_graph = true})[0];
  EXPECT_EQ(slope.to_vector(), (std::vector<float>{0, 0, 1}));
  EXPECT_EQ(grad({sum(slope)}, {far})[0].to_vector(), (std::vector<float>{0, 0, 0}));
}

TEST(Pointwise, HasNoThirdDerivative) {
  const Tensor x = variable({3});
  const Tensor y = sum(pointwise(Swish{}, x));
  const Tensor first = grad({y}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({sum(first)}, {x}, {.create_graph = true})[0];
  expect_error<Error>([&] { return grad({sum(second)}, {x}); },
                      "[adret::Swish] a formula has first and second derivatives");
}

TEST(Pointwise, TellsWhatDoesNotGoTogether) {
  const Tensor x = sequence({2, 3});
  expect_error<ShapeError>([&] { return pointwise(Gate{}, x, sequence({4})); }, "(2, 3)");
  expect_error<ShapeError>([&] { return pointwise(Gate{}, x, sequence({4})); }, "(4,)");
  expect_error<ShapeError>([&] { return pointwise(Swish{}, x.to(DType::i64)); },
                           "[adret::Swish] operand 1");
  expect_error<ShapeError>([&] { return pointwise(Gate{}, x, x.to(DType::f32)); }, "operand 2");
  SecondDevice device;
  expect_error<DeviceError>([&] { return pointwise(Gate{}, x, x.to(Device::cuda())); },
                            "operand 2");
}

TEST(Pointwise, SaysThatItWasCompiledForTheCpuAlone) {
  ADRET_CPU_ONLY("the shadow device runs the CPU's part");
  const auto code = formula::code_of<Swish, formula::Forward<Swish, 1>>();
  const formula::FormulaKernel kernel("Swish", code, std::make_shared<const Swish>(), 1);
  const Tensor x = sequence({2});
  const TensorView view = x;
  expect_error<DeviceError>(
      [&] {
        kernel.run_cuda({.inputs = {&view, 1}, .outputs = {&view, 1}}, nullptr);
        return 0;
      },
      "[Swish] this formula was compiled for the CPU alone: let nvcc compile the file");
}

// Everything on the second device, and one kernel each way.
TEST(Pointwise, RunsOnTheOperandsDevice) {
  SecondDevice second;
  if (mirrored() && test_device() == TestDevice::cuda) GTEST_SKIP() << "compiled for the CPU alone";
  Tensor x = sequence({3, 20}).to(Device::cuda()), b = sequence({20}, 3).to(Device::cuda());
  x.set_requires_grad(true), b.set_requires_grad(true);
  const Tensor y = pointwise(Gate{}, x, b);
  EXPECT_EQ(y.device(), Device::cuda());
  const Inputs d = grad({sum(y)}, {x, b}, {.create_graph = true});
  EXPECT_EQ(d[1].device(), Device::cuda());
  const Tensor again = grad({sum(square(d[0])) + sum(square(d[1]))}, {b})[0];
  EXPECT_EQ(again.device(), Device::cuda());
}

struct Names : Decorator {
  std::vector<std::string> names;
  void run(const Kernel& call) override {
    if (const auto* custom = std::get_if<kernels::Custom>(&call.any())) {
      names.emplace_back(custom->kernel->name());
    }
    forward(call);
  }
};

TEST(Pointwise, IsOneKernelEachWay) {
  const Tensor x = variable({3, 20}), b = variable({3, 20}, 3);
  Names names;
  grad({sum(pointwise(Gate{}, x, b))}, {x, b});
  EXPECT_EQ(names.names, (std::vector<std::string>{"adret::Gate", "adret::Gate backward"}));
}

}  // namespace
}  // namespace adret
