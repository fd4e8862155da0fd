// Recurrent layers over whole sequences: fused, and composed of public functions where the backward
// pass itself is recorded.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/recurrent.h>
#include <adret/autograd/ops/recurrent_steps.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/scope.h>
#include <fmt/core.h>

#include <array>
#include <vector>

namespace adret {
namespace {

using namespace kernels;

// -- gradients -----------------------------------------------------------------------------------

// The inputs of a node, in this order.
enum Input : size_t {
  of_x,
  of_input,
  of_hidden,
  of_input_bias,
  of_hidden_bias,
  of_h0,
  of_c0,
  input_count
};
using Inputs = std::array<Tensor, input_count>;

Inputs inputs_of(const RecurrentOperands& in) {
  const RecurrentWeights& w = in.weights;
  return {in.x, w.input, w.hidden, w.input_bias, w.hidden_bias, in.h0, in.c0};
}
RecurrentOperands operands_of(const Inputs& in, const Tensor& lengths) {
  return {in[of_x],
          {in[of_input], in[of_hidden], in[of_input_bias], in[of_hidden_bias]},
          in[of_h0],
          in[of_c0],
          lengths};
}

// All rows of (N, T, C) as one matrix.
Tensor rows(const Tensor& x) { return x.reshape({x.size(0) * x.size(1), x.size(2)}); }

// The h before each step, (N, T, H), from that behind each; any finite values where a sample has no
// step.
Tensor state_before(const Tensor& y, const RecurrentOperands& in, bool reverse) {
  const int64_t steps = y.size(1);
  const Tensor first = in.h0.defined()
                           ? unsqueeze(in.h0, 1)
                           : Tensor::zeros({y.size(0), 1, y.size(2)}, {y.dtype(), y.device()});
  if (steps == 1) return first;
  if (!reverse) return concatenate({first, slice(y, 1, 0, steps - 1)}, 1);
  const Tensor shifted = concatenate({slice(y, 1, 1, steps), first}, 1);
  if (!in.lengths.defined() || !in.h0.defined()) return shifted;
  // Shorter samples begin within.
  const Tensor numbers =
      arange(1, double(steps + 1), 1, {.dtype = DType::i64, .device = y.device()});
  const Tensor begins =
      equal(numbers.reshape({1, steps, 1}), in.lengths.to(DType::i64).reshape({y.size(0), 1, 1}));
  return where(begins, first, shifted);
}

// Through the composition, each input a copy in the graph of its own: else what one input is
// computed from could be another, and be reached through it, too.
std::vector<Tensor> composed_gradients(const Inputs& inputs, const Tensor& lengths,
                                       const RecurrentParams& params,
                                       const std::vector<Tensor>& grads,
                                       const std::array<bool, input_count>& wanted) {
  Inputs copies;
  std::vector<Tensor> asked;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    copies[i] = inputs[i].reshape(inputs[i].shape());
    if (wanted[i]) asked.push_back(copies[i]);
  }
  const RecurrentResult result = composed_recurrent(operands_of(copies, lengths), params);
  const Tensor results[] = {result.output, result.h, result.c};
  std::vector<Tensor> outputs;
  GradOptions options{.create_graph = true};
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !results[i].requires_grad()) continue;
    outputs.push_back(results[i]);
    options.grad_outputs.push_back(grads[i]);
  }
  std::vector<Tensor> gradients(inputs.size());
  if (outputs.empty()) return gradients;
  const std::vector<Tensor> found = grad(outputs, asked, options);
  for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && wanted[i]) gradients[i] = found[next++];
  }
  return gradients;
}

// -- fused ---------------------------------------------------------------------------------------

// Outputs y, h and, of lstm, c.
struct RecurrentNode final : Node {
  RecurrentNode(const char* function, const RecurrentOperands& in, const Tensor& y,
                const Tensor& saved, const Tensor& cells, const RecurrentParams& params)
      : function(function), lengths(in.lengths), saved(saved), cells(cells), y(y), params(params) {
    const Inputs all = inputs_of(in);
    for (size_t i = 0; i < all.size(); ++i) inputs[i] = all[i];
  }
  const char* name() const override { return function; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    Inputs unpacked;
    std::array<bool, input_count> wanted;
    for (size_t i = 0; i < inputs.size(); ++i) {
      unpacked[i] = inputs[i].unpack(*this);
      wanted[i] = unpacked[i].defined() && needs_gradient(i);
    }
    const Tensor lengths = this->lengths.unpack(*this);
    if (grad_enabled()) return composed_gradients(unpacked, lengths, params, grads, wanted);
    const RecurrentOperands in = operands_of(unpacked, lengths);
    const Tensor y = this->y.unpack(*this);
    std::vector<Tensor> gradients(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (wanted[i]) gradients[i] = grad_buffer(i);
    }
    const bool is_gru = params.cell == RecurrentCell::gru;
    const Tensor dgates = empty_like(y, y.shape().with(2, in.weights.input.size(0)));
    const Tensor dhidden = is_gru ? empty_like(dgates) : Tensor();
    run(RecurrentBackward{.weight = in.weights.hidden,
                          .h0 = in.h0,
                          .c0 = in.c0,
                          .lengths = lengths,
                          .y = y,
                          .saved = saved.unpack(*this),
                          .cells = cells.unpack(*this),
                          .dy = grads[0],
                          .dh = grads[1],
                          .dc = grads.size() > 2 ? grads[2] : Tensor(),
                          .dx = dgates,
                          .dhidden = dhidden,
                          .dh0 = gradients[of_h0],
                          .dc0 = gradients[of_c0],
                          .recurrent = params});
    products(in, y, rows(dgates), is_gru ? rows(dhidden) : rows(dgates), gradients);
    return gradients;
  }

  // The gradients of x, the weights and the biases.
  void products(const RecurrentOperands& in, const Tensor& y, const Tensor& dgates,
                const Tensor& dhidden, const std::vector<Tensor>& to) const {
    if (to[of_x].defined()) {
      run(LinearBackwardInput{
          .dy = dgates, .weight = in.weights.input, .dx = rows(to[of_x]), .math = math});
    }
    const auto of_weight = [&](const Tensor& x, const Tensor& dy, Input weight, Input bias) {
      run(LinearBackwardWeight{
          .x = x, .dy = dy, .dweight = to[weight], .dbias = to[bias], .math = math});
    };
    if (to[of_input].defined() || to[of_input_bias].defined()) {
      of_weight(rows(in.x), dgates, of_input, of_input_bias);
    }
    if (to[of_hidden].defined() || to[of_hidden_bias].defined()) {
      of_weight(rows(state_before(y, in, params.reverse)), dhidden, of_hidden, of_hidden_bias);
    }
  }

  const char* function;
  std::array<SavedTensor, input_count> inputs;
  SavedTensor lengths, saved, cells;
  SavedOutput y;
  RecurrentParams params;
  MathMode math = compute_mode().math;
};

RecurrentResult fused(const char* function, const RecurrentOperands& in,
                      const RecurrentParams& params) {
  const Inputs inputs = inputs_of(in);
  const int64_t samples = in.x.size(0), steps = in.x.size(1), hidden = in.weights.hidden.size(1);
  const bool is_lstm = params.cell == RecurrentCell::lstm;
  const auto sequence = [&](int64_t size) { return empty_like(in.x, {samples, steps, size}); };
  RecurrentResult result{.output = sequence(hidden), .h = empty_like(in.x, {samples, hidden})};
  if (is_lstm) result.c = empty_like(in.x, {samples, hidden});
  const bool keeps = grad_enabled() && any_requires_grad(inputs);
  const Tensor saved = keeps && params.saved() > 0 ? sequence(params.saved() * hidden) : Tensor(),
               cells = keeps && is_lstm ? sequence(hidden) : Tensor();
  {
    const NoGrad no_grad;
    const Tensor gates = input_gates(in, params.cell);
    run(RecurrentForward{
        .x = gates,
        .weight = in.weights.hidden,
        .bias = params.cell == RecurrentCell::gru ? in.weights.hidden_bias : Tensor(),
        .h0 = in.h0,
        .c0 = in.c0,
        .lengths = in.lengths,
        .y = result.output,
        .h = result.h,
        .c = result.c,
        .saved = saved,
        .cells = cells,
        .recurrent = params});
  }
  std::vector<Tensor> outputs = {result.output, result.h};
  if (is_lstm) outputs.push_back(result.c);
  record<RecurrentNode>(outputs, inputs, function, in, result.output, saved, cells, params);
  return result;
}

// -- checks --------------------------------------------------------------------------------------

// What the functions share.
struct Sequence {
  const char* function;
  const Tensor& x;
  const RecurrentState& state;
  const RecurrentWeights& weights;
  const Tensor& lengths;
  RecurrentParams params;

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
  const int64_t rows = in.params.gates() * in.hidden();
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

void check_state(const Sequence& in, check::Argument state) {
  if (!state.tensor.defined()) return;
  check::alike(in.function, {"x", in.x}, state);
  check::shape(in.function, state, {in.samples(), in.hidden()});
}

RecurrentResult checked_and_fused(const Sequence& in) {
  const FunctionScope scope(in.function);
  check_sequence(in);
  const bool is_lstm = in.params.cell == RecurrentCell::lstm;
  check_state(in, {is_lstm ? "state.h" : "h", in.state.h});
  check_state(in, {"state.c", in.state.c});
  // Zeros where a sample has no step, so that nothing there, NaN neither, reaches the weights'
  // gradient.
  const Tensor x =
      in.lengths.defined() ? where(present_steps(in.lengths, in.steps()), in.x, 0) : in.x;
  return fused(in.function, {x, in.weights, in.state.h, in.state.c, in.lengths}, in.params);
}

}  // namespace

RecurrentResult rnn(const Tensor& x, const Tensor& h, const RecurrentWeights& weights,
                    const RnnOptions& options) {
  const RecurrentCell cell =
      options.activation == RecurrentActivation::relu ? RecurrentCell::relu : RecurrentCell::tanh;
  return checked_and_fused({"rnn", x, {.h = h}, weights, options.lengths, {cell, options.reverse}});
}

RecurrentResult lstm(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights,
                     const RecurrentOptions& options) {
  return checked_and_fused(
      {"lstm", x, state, weights, options.lengths, {RecurrentCell::lstm, options.reverse}});
}

RecurrentResult gru(const Tensor& x, const Tensor& h, const RecurrentWeights& weights,
                    const RecurrentOptions& options) {
  return checked_and_fused(
      {"gru", x, {.h = h}, weights, options.lengths, {RecurrentCell::gru, options.reverse}});
}

}  // namespace adret
