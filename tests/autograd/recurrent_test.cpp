// Recurrent functions: what padding does, and their refusals. Against loops over plain numbers:
// properties/recurrent_test.cpp.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/recurrent.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr TensorOptions f64{.dtype = DType::f64};

TEST(Recurrent, WhatIsBeyondALengthReachesNothing) {
  std::vector<double> values = sequence({2, 3, 2}).to_vector<double>();
  for (size_t i : {2, 3, 4, 5}) values[i] = nan;  // all but the first step of the first sample
  const Tensor x = leaf(values, {2, 3, 2});
  const RecurrentWeights weights{variable({8, 2}), variable({8, 2}, 9)};
  for (const bool reverse : {false, true}) {
    const RecurrentResult result =
        lstm(x, {}, weights, {.lengths = Tensor::from<int64_t>({1, 3}, {2}), .reverse = reverse});
    const std::vector<double> output = result.output.to_vector<double>();
    for (size_t i : {2, 3, 4, 5}) EXPECT_EQ(output[i], 0);
    const std::vector<Tensor> gradients =
        grad({sum(result.output)}, {x, weights.input, weights.hidden});
    for (const Tensor& gradient : gradients) {
      for (double v : gradient.to_vector<double>()) EXPECT_TRUE(std::isfinite(v));
    }
    for (size_t i : {2, 3, 4, 5}) EXPECT_EQ(gradients[0].to_vector<double>()[i], 0);
  }
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 4, 3});
  const RecurrentWeights weights{Tensor::zeros({20, 3}), Tensor::zeros({20, 5})};
  const auto refuses = [&](const std::string& text, const Tensor& x, const RecurrentState& state,
                           const RecurrentWeights& weights, const Tensor& lengths = {}) {
    expect_error<ShapeError>([&] { return lstm(x, state, weights, {.lengths = lengths}); }, text);
  };
  refuses("[lstm] x is (2, 3), wanted (N, T, I)", Tensor::zeros({2, 3}), {}, weights);
  refuses("[lstm] x (2, 0, 3) has no steps", Tensor::zeros({2, 0, 3}), {}, weights);
  refuses("[lstm] x (2, 4, 3) is i32, wanted a floating dtype", x.to(DType::i32), {}, weights);
  refuses("[lstm] weights.hidden is (15, 5), wanted (20, 5)", x, {},
          {weights.input, Tensor::zeros({15, 5})});
  refuses("[lstm] weights.hidden is (20,), wanted (G H, H)", x, {},
          {weights.input, Tensor::zeros({20})});
  refuses("[lstm] weights.input is (20, 4), wanted (20, 3)", x, {},
          {Tensor::zeros({20, 4}), weights.hidden});
  refuses("[lstm] weights.input_bias is (5,), wanted (20,)", x, {},
          {weights.input, weights.hidden, Tensor::zeros({5})});
  refuses("[lstm] weights.hidden_bias is (5,), wanted (20,)", x, {},
          {weights.input, weights.hidden, {}, Tensor::zeros({5})});
  refuses("[lstm] state.h is (5,), wanted (2, 5)", x, {Tensor::zeros({5})}, weights);
  refuses("[lstm] state.c is (2, 3), wanted (2, 5)", x, {{}, Tensor::zeros({2, 3})}, weights);
  refuses(
      "[lstm] x (2, 4, 3) is f64, weights.hidden (20, 5) is f32; dtypes must be equal, "
      "convert one with to(dtype)",
      x.to(DType::f64), {}, weights);
  refuses("[lstm] x (2, 4, 3) is f32, state.h (2, 5) is f64; dtypes must be equal", x,
          {Tensor::zeros({2, 5}, f64)}, weights);
  refuses("[lstm] lengths is (3,), wanted (2,)", x, {}, weights,
          Tensor::zeros({3}, {.dtype = DType::i64}));
  refuses("[lstm] lengths (2,) is f32, wanted i64", x, {}, weights, Tensor::zeros({2}));
  expect_error<ShapeError>([&] { return gru(x, {}, weights); },
                           "[gru] weights.hidden is (20, 5), wanted (15, 5)");
  expect_error<ShapeError>([&] { return rnn(x, {}, weights); },
                           "[rnn] weights.hidden is (20, 5), wanted (5, 5)");
}

}  // namespace
}  // namespace adret
