// The steps of recurrent layers as functions of tensors.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/recurrent_steps.h>
#include <adret/autograd/ops/shape.h>

#include <vector>

namespace adret {
namespace {

using kernels::RecurrentCell;

Tensor state_or_zeros(const Tensor& state, const RecurrentOperands& in) {
  if (state.defined()) return state;
  return Tensor::zeros({in.x.size(0), in.weights.hidden.size(1)},
                       {.dtype = in.x.dtype(), .device = in.x.device()});
}

RecurrentState rnn_step(const Tensor& gates, const RecurrentState& before,
                        const RecurrentWeights& weights, bool is_relu) {
  const Tensor sum = gates + linear(before.h, weights.hidden);
  return {.h = is_relu ? relu(sum) : tanh(sum)};
}

RecurrentState lstm_step(const Tensor& gates, const RecurrentState& before,
                         const RecurrentWeights& weights) {
  const std::vector<Tensor> sums =
      split(gates + linear(before.h, weights.hidden), weights.hidden.size(1), 1);
  const Tensor c = sigmoid(sums[1]) * before.c + sigmoid(sums[0]) * tanh(sums[2]);
  return {.h = sigmoid(sums[3]) * tanh(c), .c = c};
}

RecurrentState gru_step(const Tensor& gates, const RecurrentState& before,
                        const RecurrentWeights& weights) {
  const int64_t hidden = weights.hidden.size(1);
  const std::vector<Tensor> of_x = split(gates, hidden, 1),
                            of_h = split(linear(before.h, weights.hidden, weights.hidden_bias),
                                         hidden, 1);
  const Tensor r = sigmoid(of_x[0] + of_h[0]), z = sigmoid(of_x[1] + of_h[1]);
  return {.h = lerp(tanh(of_x[2] + r * of_h[2]), before.h, z)};
}

RecurrentState one_step(const Tensor& gates, const RecurrentState& before,
                        const RecurrentWeights& weights, RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::lstm: return lstm_step(gates, before, weights);
    case RecurrentCell::gru: return gru_step(gates, before, weights);
    case RecurrentCell::relu:
    case RecurrentCell::tanh: break;
  }
  return rnn_step(gates, before, weights, cell == RecurrentCell::relu);
}

}  // namespace

Tensor input_gates(const RecurrentOperands& in, RecurrentCell cell) {
  const Tensor &first = in.weights.input_bias, &second = in.weights.hidden_bias;
  Tensor bias = first;
  if (cell != RecurrentCell::gru && second.defined()) {
    bias = first.defined() ? first + second : second;
  }
  return linear(in.x, in.weights.input, bias);
}

Tensor present_steps(const Tensor& lengths, int64_t steps) {
  const Tensor all = arange(0, double(steps), 1, {.dtype = DType::i64, .device = lengths.device()});
  return less(all.reshape({1, steps, 1}), lengths.to(DType::i64).reshape({lengths.size(0), 1, 1}));
}

RecurrentResult composed_recurrent(const RecurrentOperands& in,
                                   const kernels::RecurrentParams& params) {
  const size_t count = size_t(in.x.size(1));
  const std::vector<Tensor> gates = unbind(transpose(input_gates(in, params.cell), 0, 1));
  std::vector<Tensor> has_step;
  if (in.lengths.defined()) {
    has_step = unbind(transpose(present_steps(in.lengths, int64_t(count)), 0, 1));
  }
  RecurrentState state{.h = state_or_zeros(in.h0, in)};
  if (params.cell == RecurrentCell::lstm) state.c = state_or_zeros(in.c0, in);
  std::vector<Tensor> outputs(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t t = params.reverse ? count - 1 - i : i;
    RecurrentState after = one_step(gates[t], state, in.weights, params.cell);
    outputs[t] = after.h;
    if (!has_step.empty()) {
      outputs[t] = where(has_step[t], after.h, 0);
      after.h = where(has_step[t], after.h, state.h);
      if (after.c.defined()) after.c = where(has_step[t], after.c, state.c);
    }
    state = after;
  }
  return {.output = stack(outputs, 1), .h = state.h, .c = state.c};
}

}  // namespace adret
