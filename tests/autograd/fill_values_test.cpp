// Constants that a dtype cannot hold: refused with value and dtype, by every function that takes
// one.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/pad.h>
#include <adret/core/error.h>
#include <adret/core/holds.h>
#include <adret/layers/init.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

constexpr double inf = std::numeric_limits<double>::infinity();

struct Held {
  DType dtype;
  std::vector<double> held, others;
};

TEST(Holds, WhatEachDtypeReaches) {
  for (const auto& [dtype, held, others] : {
           Held{DType::f64, {0, 0.1, -1e308, inf, NAN}, {}},
           Held{DType::f32, {0, 0.1, 3.4028235e38, -inf, NAN}, {3.5e38, -1e39}},
           Held{DType::bf16, {0, 0.1, 3.3895e38, -1e-45, inf, NAN}, {3.4e38, -1e39}},
           // The largest is 65504; what is nearer to it than to 65536 is rounded to it.
           Held{DType::f16, {0, 0.1, 65504, 65519, -65504, inf, NAN}, {65520, -1e9}},
           Held{DType::i32,
                {0, -2147483648.0, 2147483647},
                {2147483648.0, -2147483649.0, 0.5, inf, NAN}},
           Held{DType::i64,
                {0, -0x1p63, 0x1p62, 0x1.fffffffffffffp62},
                {0x1p63, -0x1.0000000000001p63, 0x1p64, 1e-9, -inf, NAN}},
           Held{DType::u8, {0, 255}, {-1, 256, 300, 254.5, NAN}},
           Held{DType::boolean, {0, 1}, {-1, 2, 0.5, NAN}},
       }) {
    for (double value : held) EXPECT_NO_THROW(check_holds("f", value, dtype)) << dtype << value;
    for (double value : others) {
      EXPECT_THROW(check_holds("f", value, dtype), ShapeError) << dtype << " " << value;
    }
  }
}

TEST(FillValues, AreRefusedWithValueAndDtype) {
  const Tensor u8 = Tensor::zeros({2}, {.dtype = DType::u8});
  const Tensor f16 = Tensor::zeros({2}, {.dtype = DType::f16});
  const Tensor i32 = Tensor::zeros({2}, {.dtype = DType::i32});
  const Tensor truth = Tensor::ones({2}, {.dtype = DType::boolean});
  expect_error<ShapeError>(
      [&] {
        return pad(u8, {{1, 1}}, {.value = 300});
      },
      "[pad] value 300 does not fit u8, which holds integers 0..255");
  expect_error<ShapeError>(
      [&] { return masked_fill(f16, truth, -1e9); },
      "[masked_fill] value -1000000000 does not fit f16, which holds numbers up to 65504");
  expect_error<ShapeError>(
      [&] { return where(truth, i32, 0.5); },
      "[where] value 0.5 does not fit i32, which holds integers -2147483648..2147483647");
  expect_error<ShapeError>([&] { return where(truth, -1, u8); },
                           "[where] value -1 does not fit u8");
  expect_error<ShapeError>([&] { return Tensor::full({2}, 2, {.dtype = DType::boolean}); },
                           "[full] value 2 does not fit boolean, which holds 0 and 1");
  const NoGrad no_grad;
  expect_error<ShapeError>([&] { return fill_(i32, NAN), 0; },
                           "[fill_] value nan does not fit i32");
}

// 2^63 is the first number that i64 does not hold, and the largest that it holds is no f64.
TEST(FillValues, OfI64EndBefore2To63) {
  const TensorOptions i64{.dtype = DType::i64};
  constexpr int64_t lowest = std::numeric_limits<int64_t>::min(),
                    largest = std::numeric_limits<int64_t>::max();
  const char* const range = "i64, which holds integers -9223372036854775808..9223372036854775807";
  expect_error<ShapeError>([&] { return Tensor::full({1}, 0x1p63, i64); }, range);
  expect_error<ShapeError>([&] { return arange(0x1p63, 0x1p64, 0x1p63, i64); }, range);
  EXPECT_EQ(Tensor::full({}, -0x1p63, i64).item<int64_t>(), lowest);
  EXPECT_EQ(randint(0, largest, {2}, i64).numel(), 2);
  const Tensor ends = Tensor::from<int64_t>({lowest, largest}, {2});
  EXPECT_EQ(clamp(ends, -inf, inf).to_vector<int64_t>(), ends.to_vector<int64_t>());
  EXPECT_EQ(clamp(ends, 0, 0x1p63).to_vector<int64_t>(), (std::vector<int64_t>{0, largest}));
}

TEST(FillValues, OfRangesReachTheirEnds) {
  const TensorOptions u8{.dtype = DType::u8}, f16{.dtype = DType::f16};
  expect_error<ShapeError>([&] { return arange(250, 260, 1, u8); },
                           "[arange] value 259 does not fit u8");
  expect_error<ShapeError>([&] { return arange(3, -2, -1, u8); },
                           "[arange] value -1 does not fit u8");
  expect_error<ShapeError>([&] { return linspace(0, 70000, 3, f16); },
                           "[linspace] value 70000 does not fit f16");
  expect_error<ShapeError>([&] { return randint(0, 257, {2}, u8); },
                           "[randint] value 256 does not fit u8");
  EXPECT_EQ(arange(250, 256, 1, u8).numel(), 6);
  EXPECT_EQ(linspace(0, 1, 3, u8).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(randint(0, 256, {2}, u8).numel(), 2);
}

TEST(FillValues, OfInfinityAndOfWhatRoundsAreTaken) {
  const Tensor f16 = Tensor::zeros({1}, {.dtype = DType::f16});
  const Tensor truth = Tensor::ones({1}, {.dtype = DType::boolean});
  expect_values(masked_fill(f16, truth, -inf), {1}, {-inf});
  expect_values(masked_fill(f16, truth, 0.1), {1}, {0.0999755859375});
}

// In every function with a scalar: a finite one never becomes infinite in silence.
TEST(FillValues, OfScalarsAreRefusedByTheFunctionThatWasCalled) {
  using Function = std::function<Tensor(const Tensor& x, double scalar)>;
  const std::vector<std::pair<std::string, Function>> functions{
      {"add", [](const Tensor& x, double c) { return x + c; }},
      {"add", [](const Tensor& x, double c) { return c + x; }},
      {"subtract", [](const Tensor& x, double c) { return x - c; }},
      {"subtract", [](const Tensor& x, double c) { return c - x; }},
      {"multiply", [](const Tensor& x, double c) { return x * c; }},
      {"multiply", [](const Tensor& x, double c) { return c * x; }},
      {"divide", [](const Tensor& x, double c) { return x / c; }},
      {"divide", [](const Tensor& x, double c) { return c / x; }},
      {"affine", [](const Tensor& x, double c) { return affine(x, c, 1); }},
      {"affine", [](const Tensor& x, double c) { return affine(x, 1, c); }},
      {"reciprocal", [](const Tensor& x, double c) { return reciprocal(x, c); }},
      {"pow", [](const Tensor& x, double c) { return pow(x, c); }},
      {"clamp", [](const Tensor& x, double c) { return clamp(x, std::abs(c), inf); }},
      {"clamp", [](const Tensor& x, double c) { return clamp(x, -inf, -std::abs(c)); }},
      {"hardtanh", [](const Tensor& x, double c) { return hardtanh(x, std::abs(c), inf); }},
      {"elu", [](const Tensor& x, double c) { return elu(x, c); }},
      {"leaky_relu", [](const Tensor& x, double c) { return leaky_relu(x, c); }},
      {"softplus", [](const Tensor& x, double c) { return softplus(x, {.beta = c}); }},
      {"lerp", [](const Tensor& x, double c) { return lerp(x, x, c); }},
      {"full", [](const Tensor& x, double c) { return Tensor::full({}, c, {.dtype = x.dtype()}); }},
      {"uniform_",
       [](const Tensor& x, double c) {
         return init::uniform_(x, std::min(0.0, c), std::max(0.0, c)), x;
       }},
      {"normal_", [](const Tensor& x, double c) { return init::normal_(x, c, 1), x; }},
  };
  struct Case {
    DType dtype;
    double held, other;
    std::string text;
  };
  for (const auto& [dtype, held, other, text] :
       {Case{DType::f16, 65504, 1e5,
             "value 100000 does not fit f16, which holds numbers up to 65504"},
        Case{DType::bf16, 1e38, 3.4e38, "value 3.4e+38 does not fit bf16"},
        Case{DType::f32, -1e38, -1e300, "value -1e+300 does not fit f32"},
        Case{DType::f32, 1e38, 1e300, "value 1e+300 does not fit f32"}}) {
    for (const auto& [name, function] : functions) {
      const Tensor x = Tensor::ones({2}, {.dtype = dtype});
      const bool one_sided = name == "clamp" || name == "hardtanh";
      const std::string expected = one_sided ? "value " : text;  // of either sign
      expect_error<ShapeError>([&] { return function(x, other); }, "[" + name + "] " + expected);
      EXPECT_NO_THROW(function(x, held)) << name;
      if (name != "uniform_" && name != "normal_") {
        EXPECT_NO_THROW(function(x, inf)) << name;
      }
    }
  }
}

TEST(FillValues, OfDivisorsMayBeSmallButNotZeroInSilence) {
  const Tensor half = Tensor::full({1}, 1e-3, {.dtype = DType::f16}), x = Tensor::ones({1});
  EXPECT_NEAR((half / 1e-6).to(DType::f32).item(), 1000, 2);  // 1e6 is no f16
  expect_error<ShapeError>([&] { return x / 1e-300; }, "[divide] the divisor 1e-300 is 0 in f32");
  EXPECT_EQ((Tensor::full({1}, 1e-20) / 1e-40).item(), 1e-20f / 1e-40f);
  EXPECT_EQ((x / 0).item(), inf);
  EXPECT_EQ((x / inf).item(), 0);
}

// What functions and gradients do within is not the user's scalar.
TEST(FillValues, OfGradientsAreComputedInF32) {
  Tensor x = Tensor::full({1}, 1e-3, {.dtype = DType::f16});
  x.set_requires_grad(true);
  const Tensor y = x / 2e-5;
  (y * 1e-4).backward();
  EXPECT_NEAR(x.grad().to(DType::f32).item(), 5, 0.01);
}

// A bound beyond the range binds nothing.
TEST(FillValues, ClampTakesBoundsBeyondTheRange) {
  const Tensor i32 = Tensor::from({-5, 7}, {2});
  EXPECT_EQ(clamp(i32, -inf, 3).to_vector<int32_t>(), (std::vector<int32_t>{-5, 3}));
  EXPECT_EQ(clamp(i32, 0, 1e30).to_vector<int32_t>(), (std::vector<int32_t>{0, 7}));
  const Tensor f16 = Tensor::full({1}, 5, {.dtype = DType::f16});
  expect_values(clamp(f16, -1e9, 1e9), {1}, {5});
  expect_error<ShapeError>([&] { return clamp(i32, 0.5, 3); },
                           "[clamp] value 0.5 does not fit i32");
}

}  // namespace
}  // namespace adret
