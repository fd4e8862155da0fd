// Cases of recurrent layers: their outputs with the last state behind them.
#include <adret/autograd/ops/recurrent.h>
#include <adret/autograd/ops/shape.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;

constexpr bool ahead = false, back = true;  // reverse

// x, the state, the weights, the biases or none, and lengths last if there are any.
struct Operands {
  const Inputs& in;
  size_t states;

  const Tensor& x() const { return in[0]; }
  RecurrentWeights weights() const {
    RecurrentWeights weights{.input = in[1 + states], .hidden = in[2 + states]};
    if (in.size() > 4 + states) {
      weights.input_bias = in[3 + states];
      weights.hidden_bias = in[4 + states];
    }
    return weights;
  }
  Tensor lengths() const { return in.back().dtype() == DType::i64 ? in.back() : Tensor(); }
};

Tensor joined(const RecurrentResult& result) {
  std::vector<Tensor> parts = {result.output, unsqueeze(result.h, 1)};
  if (result.c.defined()) parts.push_back(unsqueeze(result.c, 1));
  return concatenate(parts, 1);
}

FunctionCase rnn_case(const char* name, RecurrentActivation activation, bool reverse) {
  return {
      name, [=](const Inputs& in) {
        const Operands of{in, 1};
        return joined(rnn(of.x(), in[1], of.weights(),
                          {.activation = activation, .lengths = of.lengths(), .reverse = reverse}));
      }};
}
FunctionCase lstm_case(const char* name, bool reverse) {
  return {name, [=](const Inputs& in) {
            const Operands of{in, 2};
            return joined(lstm(of.x(), {in[1], in[2]}, of.weights(),
                               {.lengths = of.lengths(), .reverse = reverse}));
          }};
}
FunctionCase gru_case(const char* name, bool reverse) {
  return {name, [=](const Inputs& in) {
            const Operands of{in, 1};
            return joined(
                gru(of.x(), in[1], of.weights(), {.lengths = of.lengths(), .reverse = reverse}));
          }};
}

}  // namespace

std::vector<FunctionCase> recurrent_cases() {
  return {
      rnn_case("rnn", RecurrentActivation::tanh, ahead),
      rnn_case("rnn/relu", RecurrentActivation::relu, ahead),
      rnn_case("rnn/lengths_reverse", RecurrentActivation::tanh, back),
      lstm_case("lstm", ahead),
      lstm_case("lstm/lengths", ahead),
      lstm_case("lstm/lengths_reverse", back),
      lstm_case("lstm/no_bias", ahead),
      gru_case("gru", ahead),
      gru_case("gru/lengths", ahead),
      gru_case("gru/lengths_reverse", back),
      gru_case("gru/no_bias", ahead),
  };
}

}  // namespace adret::test
