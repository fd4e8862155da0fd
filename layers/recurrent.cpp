// Recurrent layers and cells.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <adret/layers/recurrent.h>
#include <fmt/core.h>

#include <cmath>
#include <string>

namespace adret {
namespace {

// What tells the kinds apart.
template <class L>
struct Kind;
template <>
struct Kind<RNN> {
  static constexpr const char* name = "RNN";
  static constexpr int64_t gates = 1;
};
template <>
struct Kind<LSTM> {
  static constexpr const char* name = "LSTM";
  static constexpr int64_t gates = 4;
};
template <>
struct Kind<GRU> {
  static constexpr const char* name = "GRU";
  static constexpr int64_t gates = 3;
};
template <>
struct Kind<RNNCell> : Kind<RNN> {
  static constexpr const char* name = "RNNCell";
};
template <>
struct Kind<LSTMCell> : Kind<LSTM> {
  static constexpr const char* name = "LSTMCell";
};
template <>
struct Kind<GRUCell> : Kind<GRU> {
  static constexpr const char* name = "GRUCell";
};

template <class L>
constexpr bool has_cell_state = Kind<L>::gates == Kind<LSTM>::gates;

template <class L>
RecurrentResult run_sequence(const Tensor& x, const RecurrentState& state,
                             const RecurrentWeights& weights, RecurrentActivation activation,
                             const RecurrentOptions& options) {
  if constexpr (Kind<L>::gates == Kind<RNN>::gates) {
    return rnn(x, state.h, weights,
               {.activation = activation, .lengths = options.lengths, .reverse = options.reverse});
  } else if constexpr (has_cell_state<L>) {
    return lstm(x, state, weights, options);
  } else {
    return gru(x, state.h, weights, options);
  }
}

struct PartShape {
  int64_t inputs, hidden, gates;
  bool bias;
};

Tensor uniform(const Shape& shape, int64_t hidden) {
  const double bound = 1 / std::sqrt(double(hidden));
  Tensor x = Tensor::empty(shape);
  init::uniform_(x, -bound, bound);
  return x;
}

// register_one(name, value) -> Parameter&.
template <class Register>
RecurrentParameters make_part(const PartShape& part, const std::string& suffix,
                              const Register& register_one) {
  const int64_t rows = part.gates * part.hidden;
  const auto weight = [&](const char* name, int64_t columns) {
    return std::ref(register_one(name + suffix, uniform({rows, columns}, part.hidden)));
  };
  const auto bias = [&](const char* name) {
    return std::ref(
        register_one(name + suffix, part.bias ? uniform({rows}, part.hidden) : Tensor()));
  };
  return {weight("weight_ih", part.inputs), weight("weight_hh", part.hidden), bias("bias_ih"),
          bias("bias_hh")};
}

template <class L>
void check_activation(RecurrentActivation activation) {
  if (Kind<L>::gates == Kind<RNN>::gates || activation == RecurrentActivation::tanh) return;
  throw Error(fmt::format("[{}] activation is relu; only an RNN has one of its own, this is tanh",
                          Kind<L>::name));
}

template <class L>
RecurrentLayerOptions checked(const RecurrentLayerOptions& options) {
  at_least(1, options.layers, Kind<L>::name, "layers");
  probability(options.dropout, Kind<L>::name, "dropout");
  check_activation<L>(options.activation);
  return options;
}

template <class L>
RecurrentCellOptions checked(const RecurrentCellOptions& options) {
  check_activation<L>(options.activation);
  return options;
}

template <class L>
void check_features(const Tensor& x, int64_t input_size) {
  if (x.size(-1) == input_size) return;
  check::refuse(Kind<L>::name, fmt::format("x {} has {} features, the layer {}",
                                           to_string(x.shape()), x.size(-1), input_size));
}

// A kind without a cell refuses one; an undefined part stays that.
template <class L>
RecurrentState in_dtype_of(const Tensor& weight, const RecurrentState& state) {
  if (state.c.defined() && !has_cell_state<L>) {
    check::refuse(Kind<L>::name, "state.c was given, but only an LSTM has a cell");
  }
  const auto cast = [&](const Tensor& x) {
    return x.defined() ? adret::in_dtype_of(weight, x) : Tensor();
  };
  return {cast(state.h), cast(state.c)};
}

}  // namespace

RecurrentWeights RecurrentParameters::weights() const {
  return {weight_ih.get().value, weight_hh.get().value, bias_ih.get().value, bias_hh.get().value};
}

// -- whole sequences -----------------------------------------------------------------------------

template <class Self>
RecurrentLayer<Self>::RecurrentLayer(int64_t input_size, int64_t hidden_size,
                                     const RecurrentLayerOptions& options)
    : input_size(at_least(1, input_size, Kind<Self>::name, "input_size")),
      hidden_size(at_least(1, hidden_size, Kind<Self>::name, "hidden_size")),
      options(checked<Self>(options)),
      parts(make_parts()) {}

template <class Self>
std::vector<RecurrentParameters> RecurrentLayer<Self>::make_parts() {
  const int directions = options.bidirectional ? 2 : 1;
  std::vector<RecurrentParameters> made;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const int64_t inputs = layer == 0 ? input_size : directions * hidden_size;
    for (int direction = 0; direction < directions; ++direction) {
      const std::string suffix = fmt::format("_l{}{}", layer, direction ? "_reverse" : "");
      made.push_back(make_part({inputs, hidden_size, Kind<Self>::gates, options.bias}, suffix,
                               [&](const std::string& name, const Tensor& value) -> Parameter& {
                                 return this->parameter(name, value);
                               }));
    }
  }
  return made;
}

// A part of the state by its rows (N, H); undefined ones for an undefined part.
template <class Self>
std::vector<Tensor> RecurrentLayer<Self>::rows(const char* name, const Tensor& state,
                                               int64_t samples) const {
  if (!state.defined()) return std::vector<Tensor>(parts.size());
  check::shape(Kind<Self>::name, {name, state}, {int64_t(parts.size()), samples, hidden_size});
  return unbind(state);
}

template <class Self>
RecurrentResult RecurrentLayer<Self>::forward(const Tensor& x, const RecurrentState& state,
                                              const Tensor& lengths) {
  check::rank(Kind<Self>::name, {"x", x}, 3, "(N, T, I)");
  check_features<Self>(x, input_size);
  const Tensor& weight = parts[0].weight_ih.get();
  const RecurrentState cast = in_dtype_of<Self>(weight, state);
  const std::vector<Tensor> h = rows("state.h", cast.h, x.size(0)),
                            c = rows("state.c", cast.c, x.size(0));
  const size_t directions = options.bidirectional ? 2 : 1;
  Tensor y = adret::in_dtype_of(weight, x);
  std::vector<Tensor> last_h, last_c;
  for (size_t first = 0; first < parts.size(); first += directions) {
    if (first > 0) y = dropout(y, options.dropout, this->training());
    std::vector<Tensor> outputs;
    for (size_t i = first; i < first + directions; ++i) {
      const RecurrentResult result =
          run_sequence<Self>(y, {h[i], c[i]}, parts[i].weights(), options.activation,
                             {.lengths = lengths, .reverse = i > first});
      outputs.push_back(result.output);
      last_h.push_back(result.h);
      last_c.push_back(result.c);
    }
    y = directions == 1 ? outputs[0] : concatenate(outputs, 2);
  }
  return {
      .output = y, .h = stack(last_h, 0), .c = has_cell_state<Self> ? stack(last_c, 0) : Tensor()};
}

// -- single steps --------------------------------------------------------------------------------

template <class Self>
RecurrentCell<Self>::RecurrentCell(int64_t input_size, int64_t hidden_size,
                                   const RecurrentCellOptions& options)
    : input_size(at_least(1, input_size, Kind<Self>::name, "input_size")),
      hidden_size(at_least(1, hidden_size, Kind<Self>::name, "hidden_size")),
      options(checked<Self>(options)),
      part(make_part({input_size, hidden_size, Kind<Self>::gates, options.bias}, "",
                     [&](const std::string& name, const Tensor& value) -> Parameter& {
                       return this->parameter(name, value);
                     })) {}

template <class Self>
RecurrentState RecurrentCell<Self>::forward(const Tensor& x, const RecurrentState& state) {
  check::rank(Kind<Self>::name, {"x", x}, 2, "(N, I)");
  check_features<Self>(x, input_size);
  const Tensor& weight = part.weight_ih.get();
  const RecurrentResult result =
      run_sequence<Self>(unsqueeze(adret::in_dtype_of(weight, x), 1),
                         in_dtype_of<Self>(weight, state), part.weights(), options.activation, {});
  return {.h = result.h, .c = result.c};
}

template class RecurrentLayer<RNN>;
template class RecurrentLayer<LSTM>;
template class RecurrentLayer<GRU>;
template class RecurrentCell<RNNCell>;
template class RecurrentCell<LSTMCell>;
template class RecurrentCell<GRUCell>;

}  // namespace adret
