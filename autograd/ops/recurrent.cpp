// Recurrent layers over whole sequences, composed.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/recurrent.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/scope.h>
#include <fmt/core.h>

#include <vector>

namespace adret {
namespace {

// What the functions share; `gates` is the number of row blocks in the weights.
struct Sequence {
  const char* function;
  int64_t gates;
  const Tensor& x;
  const RecurrentWeights& weights;
  const Tensor& lengths;
  bool reverse;

  int64_t samples() const { return x.size(0); }
  int64_t steps() const { return x.size(1); }
  int64_t hidden() const { return weights.hidden.size(1); }
};

void check_sequence(const Sequence& in) {
  const check::Argument x{"x", in.x}, weight{"weights.hidden", in.weights.hidden},
      lengths{"lengths", in.lengths};
  check::floating(in.function, x);
  check::rank(in.function, x, 3, "(N, T, I)");
  if (in.steps() == 0) {
    check::refuse(in.function, fmt::format("x {} has no steps", to_string(in.x.shape())));
  }
  check::rank(in.function, weight, 2, "(G H, H)");
  const int64_t rows = in.gates * in.hidden();
  check::shape(in.function, weight, {rows, in.hidden()});
  check::shape(in.function, {"weights.input", in.weights.input}, {rows, in.x.size(2)});
  check::shape(in.function, {"weights.input_bias", in.weights.input_bias}, {rows});
  check::shape(in.function, {"weights.hidden_bias", in.weights.hidden_bias}, {rows});
  check::alike(in.function, x, weight);
  check::alike(in.function, x, {"weights.input", in.weights.input});
  check::alike(in.function, x, {"weights.input_bias", in.weights.input_bias});
  check::alike(in.function, x, {"weights.hidden_bias", in.weights.hidden_bias});
  if (!in.lengths.defined()) return;
  check::integer(in.function, lengths);
  check::same_device(in.function, x, lengths);
  check::shape(in.function, lengths, {in.samples()});
}

// A part of the state that comes in; zeros if none was given.
Tensor first_state(const Sequence& in, check::Argument state) {
  const Shape shape = {in.samples(), in.hidden()};
  if (!state.tensor.defined()) {
    return Tensor::zeros(shape, {.dtype = in.x.dtype(), .device = in.x.device()});
  }
  check::alike(in.function, {"x", in.x}, state);
  check::shape(in.function, state, shape);
  return state.tensor;
}

// (T, N, 1): whether a sample has a step; undefined where each has all.
Tensor present_steps(const Sequence& in) {
  if (!in.lengths.defined()) return {};
  const Tensor steps =
      arange(0, double(in.steps()), 1, {.dtype = DType::i64, .device = in.x.device()});
  return less(steps.reshape({in.steps(), 1, 1}),
              in.lengths.to(DType::i64).reshape({1, in.samples(), 1}));
}

// Both biases in one, where they are only added.
Tensor whole_bias(const RecurrentWeights& weights) {
  if (!weights.input_bias.defined()) return weights.hidden_bias;
  if (!weights.hidden_bias.defined()) return weights.input_bias;
  return weights.input_bias + weights.hidden_bias;
}

// The input's part of the gates, (T, N, G H). Steps that a sample lacks count as zeros, so that
// nothing in them, NaN neither, reaches the weights' gradient.
Tensor input_product(const Sequence& in, const Tensor& present, const Tensor& bias) {
  Tensor x = transpose(in.x, 0, 1);
  if (present.defined()) x = where(present, x, 0);
  return linear(x, in.weights.input, bias);
}

// Calls next(t, state) for each step in order, and keeps the state where a sample has no step.
template <class Next>
RecurrentResult over_steps(const Sequence& in, const Tensor& present, RecurrentState state,
                           const Next& next) {
  const std::vector<Tensor> has_step = present.defined() ? unbind(present) : std::vector<Tensor>();
  const size_t count = size_t(in.steps());
  std::vector<Tensor> outputs(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t t = in.reverse ? count - 1 - i : i;
    RecurrentState after = next(t, state);
    outputs[t] = after.h;
    if (present.defined()) {
      outputs[t] = where(has_step[t], after.h, 0);
      after.h = where(has_step[t], after.h, state.h);
      if (after.c.defined()) after.c = where(has_step[t], after.c, state.c);
    }
    state = after;
  }
  return {.output = stack(outputs, 1), .h = state.h, .c = state.c};
}

}  // namespace

RecurrentResult rnn(const Tensor& x, const Tensor& h, const RecurrentWeights& weights,
                    const RnnOptions& options) {
  const FunctionScope scope("rnn");
  const Sequence in{"rnn", 1, x, weights, options.lengths, options.reverse};
  check_sequence(in);
  const Tensor first = first_state(in, {"h", h});
  const Tensor present = present_steps(in);
  const std::vector<Tensor> inputs = unbind(input_product(in, present, whole_bias(weights)));
  const bool is_relu = options.activation == RecurrentActivation::relu;
  return over_steps(in, present, {.h = first}, [&](size_t t, const RecurrentState& before) {
    const Tensor sum = inputs[t] + linear(before.h, weights.hidden);
    return RecurrentState{.h = is_relu ? relu(sum) : tanh(sum)};
  });
}

RecurrentResult lstm(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights,
                     const RecurrentOptions& options) {
  const FunctionScope scope("lstm");
  const Sequence in{"lstm", 4, x, weights, options.lengths, options.reverse};
  check_sequence(in);
  const RecurrentState first{first_state(in, {"state.h", state.h}),
                             first_state(in, {"state.c", state.c})};
  const Tensor present = present_steps(in);
  const std::vector<Tensor> inputs = unbind(input_product(in, present, whole_bias(weights)));
  return over_steps(in, present, first, [&](size_t t, const RecurrentState& before) {
    const std::vector<Tensor> gates =
        split(inputs[t] + linear(before.h, weights.hidden), in.hidden(), 1);
    const Tensor c = sigmoid(gates[1]) * before.c + sigmoid(gates[0]) * tanh(gates[2]);
    return RecurrentState{.h = sigmoid(gates[3]) * tanh(c), .c = c};
  });
}

RecurrentResult gru(const Tensor& x, const Tensor& h, const RecurrentWeights& weights,
                    const RecurrentOptions& options) {
  const FunctionScope scope("gru");
  const Sequence in{"gru", 3, x, weights, options.lengths, options.reverse};
  check_sequence(in);
  const Tensor first = first_state(in, {"h", h});
  const Tensor present = present_steps(in);
  const int64_t hidden = in.hidden();
  // r and z, whose two parts are only added, and n.
  const std::vector<Tensor> product =
      split(input_product(in, present, weights.input_bias), 2 * hidden, 2);
  const std::vector<Tensor> gates = unbind(product[0]), candidates = unbind(product[1]);
  return over_steps(in, present, {.h = first}, [&](size_t t, const RecurrentState& before) {
    const std::vector<Tensor> own =
        split(linear(before.h, weights.hidden, weights.hidden_bias), 2 * hidden, 1);
    const std::vector<Tensor> open = split(sigmoid(gates[t] + own[0]), hidden, 1);
    const Tensor n = tanh(candidates[t] + open[0] * own[1]);
    return RecurrentState{.h = lerp(n, before.h, open[1])};
  });
}

}  // namespace adret
