// Recurrent functions: against loops over plain numbers, what padding does, and their refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/recurrent.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Row = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr TensorOptions f64{.dtype = DType::f64};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// weight (rows, row.size()) times row, plus bias.
Row product(const Tensor& weight, const Row& row, const Tensor& bias) {
  const Row values = weight.to_vector<double>();
  Row y(size_t(weight.size(0)));
  for (size_t i = 0; i < y.size(); ++i) {
    if (bias.defined()) y[i] = bias.to_vector<double>()[i];
    for (size_t k = 0; k < row.size(); ++k) y[i] += values[i * row.size() + k] * row[k];
  }
  return y;
}

enum class Kind { rnn, relu, lstm, gru };

// One step of one sample, from the formulas.
void naive_step(Kind kind, const Row& a, const Row& b, Row& h, Row& c) {
  const size_t size = h.size();
  for (size_t j = 0; j < size; ++j) {
    const auto gate = [&](size_t k) { return a[k * size + j] + b[k * size + j]; };
    switch (kind) {
      case Kind::rnn: h[j] = std::tanh(gate(0)); break;
      case Kind::relu: h[j] = std::max(gate(0), 0.0); break;
      case Kind::lstm:
        c[j] = logistic(gate(1)) * c[j] + logistic(gate(0)) * std::tanh(gate(2));
        h[j] = logistic(gate(3)) * std::tanh(c[j]);
        break;
      case Kind::gru: {
        const double r = logistic(gate(0)), z = logistic(gate(1));
        const double n = std::tanh(a[2 * size + j] + r * b[2 * size + j]);
        h[j] = (1 - z) * n + z * h[j];
      }
    }
  }
}

struct Problem {
  Kind kind;
  Tensor x, h, c, lengths;
  RecurrentWeights weights;
  bool reverse;

  RecurrentResult run() const {
    switch (kind) {
      case Kind::lstm: return lstm(x, {h, c}, weights, {.lengths = lengths, .reverse = reverse});
      case Kind::gru: return gru(x, h, weights, {.lengths = lengths, .reverse = reverse});
      case Kind::rnn: return rnn(x, h, weights, {.lengths = lengths, .reverse = reverse});
      case Kind::relu: break;
    }
    return rnn(x, h, weights,
               {.activation = RecurrentActivation::relu, .lengths = lengths, .reverse = reverse});
  }
};

Problem random_problem(std::mt19937& random) {
  const auto below = [&](int n) { return int64_t(random() % unsigned(n)); };
  const auto values = [&](const Shape& shape) {
    Row row(size_t(shape.numel()));
    for (double& v : row) v = std::uniform_real_distribution<>(-1, 1)(random);
    return Tensor::from(row, shape);
  };
  Problem p{.kind = Kind(below(4)), .reverse = below(2) == 1};
  const int64_t n = below(4), t = 1 + below(6), inputs = 1 + below(5), hidden = 1 + below(5);
  const int64_t rows = hidden * std::array{1, 1, 4, 3}[size_t(p.kind)];
  p.x = values({n, t, inputs});
  if (below(3) > 0) p.h = values({n, hidden});
  if (below(3) > 0) p.c = values({n, hidden});
  p.weights = {values({rows, inputs}), values({rows, hidden})};
  if (below(3) > 0) p.weights.input_bias = values({rows});
  if (below(3) > 0) p.weights.hidden_bias = values({rows});
  if (below(2) > 0) {
    std::vector<int32_t> lengths;
    for (int64_t i = 0; i < n; ++i) lengths.push_back(int32_t(below(int(t) + 3)) - 1);
    p.lengths = Tensor::from(lengths, {n});
    if (below(2) > 0) p.lengths = p.lengths.to(DType::i64);
  }
  return p;
}

void expect_naive(const Problem& p) {
  const int64_t n = p.x.size(0), t = p.x.size(1), inputs = p.x.size(2);
  const size_t hidden = size_t(p.weights.hidden.size(1));
  const auto row_of = [&](const Tensor& x, int64_t place, size_t size) {
    if (!x.defined()) return Row(size);
    const Row all = x.to_vector<double>();
    return Row(all.begin() + place * int64_t(size), all.begin() + (place + 1) * int64_t(size));
  };
  Row output(size_t(n * t) * hidden), last_h, last_c;
  for (int64_t i = 0; i < n; ++i) {
    Row h = row_of(p.h, i, hidden), c = row_of(p.c, i, hidden);
    const int64_t wanted =
        p.lengths.defined() ? p.lengths.to(DType::i64).to_vector<int64_t>()[size_t(i)] : t;
    const int64_t length = std::clamp<int64_t>(wanted, 0, t);
    for (int64_t step = 0; step < length; ++step) {
      const int64_t place = i * t + (p.reverse ? length - 1 - step : step);
      naive_step(p.kind,
                 product(p.weights.input, row_of(p.x, place, size_t(inputs)), p.weights.input_bias),
                 product(p.weights.hidden, h, p.weights.hidden_bias), h, c);
      std::ranges::copy(h, output.begin() + place * int64_t(hidden));
    }
    last_h.insert(last_h.end(), h.begin(), h.end());
    last_c.insert(last_c.end(), c.begin(), c.end());
  }
  const RecurrentResult result = p.run();
  expect_values(result.output, {n, t, int64_t(hidden)}, output, 1e-12);
  expect_values(result.h, {n, int64_t(hidden)}, last_h, 1e-12);
  EXPECT_EQ(result.c.defined(), p.kind == Kind::lstm);
  if (result.c.defined()) expect_values(result.c, {n, int64_t(hidden)}, last_c, 1e-12);
}

TEST(Recurrent, IsALoopOverPlainNumbers) {
  for (unsigned seed = 0; seed < 200 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    expect_naive(random_problem(random));
  }
}

TEST(Recurrent, WhatIsBeyondALengthReachesNothing) {
  Row values = sequence({2, 3, 2}).to_vector<double>();
  for (size_t i : {2, 3, 4, 5}) values[i] = nan;  // all but the first step of the first sample
  const Tensor x = leaf(values, {2, 3, 2});
  const RecurrentWeights weights{variable({8, 2}), variable({8, 2}, 9)};
  for (const bool reverse : {false, true}) {
    const RecurrentResult result =
        lstm(x, {}, weights, {.lengths = Tensor::from<int64_t>({1, 3}, {2}), .reverse = reverse});
    const Row output = result.output.to_vector<double>();
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
