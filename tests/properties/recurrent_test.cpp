// Recurrent functions against loops over plain numbers.
#include <adret/autograd/ops/recurrent.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;
using Row = std::vector<double>;

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

Problem random_problem(Draw& draw, Kind kind) {
  Problem p{.kind = kind, .reverse = draw.chance()};
  const int64_t n = draw.size(), t = draw.integer(1, 6), inputs = draw.integer(1, 5);
  const int64_t hidden = draw.integer(1, 5);
  const int64_t rows = hidden * std::array{1, 1, 4, 3}[size_t(kind)];
  const auto values = [&](const Shape& shape) { return draw.numbers(shape, DType::f64, -1, 1); };
  p.x = values({n, t, inputs});
  if (draw.chance(0.7)) p.h = values({n, hidden});
  if (draw.chance(0.7)) p.c = values({n, hidden});
  p.weights = {values({rows, inputs}), values({rows, hidden})};
  if (draw.chance(0.7)) p.weights.input_bias = values({rows});
  if (draw.chance(0.7)) p.weights.hidden_bias = values({rows});
  if (draw.chance()) {
    p.lengths = draw.integers({n}, -1, t + 1, draw.chance() ? DType::i32 : DType::i64);
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

// Those that are there and have an influence.
std::vector<Tensor*> operands_of(Problem& p) {
  std::vector<Tensor*> operands{&p.x,
                                &p.h,
                                &p.weights.input,
                                &p.weights.input_bias,
                                &p.weights.hidden,
                                &p.weights.hidden_bias};
  if (p.kind == Kind::lstm) operands.push_back(&p.c);
  std::erase_if(operands, [](const Tensor* operand) { return !operand->defined(); });
  return operands;
}

void expect_slopes(Draw& draw, Problem p) {
  Inputs inputs;
  for (const Tensor* operand : operands_of(p)) inputs.push_back(*operand);
  expect_slope(
      [&](const Inputs& in) {
        size_t next = 0;
        for (Tensor* operand : operands_of(p)) *operand = in[next++];
        return p.run().output;
      },
      inputs, draw);
}

TEST(RecurrentProperties, AreLoopsOverPlainNumbers) {
  const struct {
    const char* name;
    std::vector<Kind> kinds;
  } functions[] = {{"rnn", {Kind::rnn, Kind::relu}}, {"lstm", {Kind::lstm}}, {"gru", {Kind::gru}}};
  for (const auto& [name, kinds] : functions) {
    for_random_cases(name, [&, &kinds = kinds](Draw& draw) {
      const Problem p = random_problem(draw, draw.one_of(kinds));
      expect_naive(p);
      expect_slopes(draw, p);
    });
  }
}

}  // namespace
}  // namespace adret
