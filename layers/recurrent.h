// Recurrent layers, named as PyTorch's: RNN, LSTM, GRU and their single steps.
#pragma once

#include <adret/autograd/ops/recurrent.h>
#include <adret/layers/module.h>

#include <functional>
#include <vector>

namespace adret {

struct RecurrentLayerOptions {
  int64_t layers = 1;  // each takes the outputs of the one before
  bool bias = true;
  double dropout = 0;          // of the outputs between layers, in training
  bool bidirectional = false;  // D = 2 directions, whose outputs are joined
  RecurrentActivation activation = RecurrentActivation::tanh;  // of RNN alone
};

// Note [Recurrent parameters]
// Layer k has weight_ih_lk (G H, I, or D H behind the first layer), weight_hh_lk (G H, H),
// bias_ih_lk and bias_hh_lk (G H), and with _reverse behind the name those of the other direction;
// G is the number of gates, in PyTorch's order. Cells have the same names without _lk. All start
// uniform within 1 / sqrt(H) of zero, as PyTorch's.
struct RecurrentParameters {
  std::reference_wrapper<Parameter> weight_ih, weight_hh, bias_ih, bias_hh;
  RecurrentWeights weights() const;
};

// x (N, T, I), a state (D layers, N, H), undefined parts being zeros, and lengths (N), see
// RecurrentOptions -> the output (N, T, D H) and the last state. The base of RNN, LSTM and GRU; a
// state's rows are layer 0, layer 0 reverse, layer 1, ...
template <class Self>
class RecurrentLayer : public Layer<Self> {
 public:
  RecurrentResult forward(const Tensor& x, const RecurrentState& state = {},
                          const Tensor& lengths = {});
  using Layer<Self>::operator();
  RecurrentResult operator()(const Tensor& x, const RecurrentState& state,
                             const Tensor& lengths = {}) {
    return Layer<Self>::operator()(x, state, lengths);
  }
  Self rebuild() const { return Self(input_size, hidden_size, options); }

  const int64_t input_size, hidden_size;
  const RecurrentLayerOptions options;
  const std::vector<RecurrentParameters> parts;  // in the order of a state's rows

 protected:
  RecurrentLayer(int64_t input_size, int64_t hidden_size, const RecurrentLayerOptions& options);

 private:
  std::vector<RecurrentParameters> make_parts();
  std::vector<Tensor> rows(const char* name, const Tensor& state, int64_t samples) const;
};

// See rnn, lstm and gru in autograd/ops/recurrent.h. Constructors throw Error for sizes below 1, a
// dropout outside 0..1 and an activation of other kinds than RNN; forward throws ShapeError where
// shapes do not agree.
class RNN : public RecurrentLayer<RNN> {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentLayerOptions& options = {})
      : RecurrentLayer(input_size, hidden_size, options) {}
};
class LSTM : public RecurrentLayer<LSTM> {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentLayerOptions& options = {})
      : RecurrentLayer(input_size, hidden_size, options) {}
};
class GRU : public RecurrentLayer<GRU> {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentLayerOptions& options = {})
      : RecurrentLayer(input_size, hidden_size, options) {}
};

struct RecurrentCellOptions {
  bool bias = true;
  RecurrentActivation activation = RecurrentActivation::tanh;  // of RNNCell alone
};

// One step: x (N, I) and a state (N, H), undefined parts being zeros -> the state behind it. The
// base of RNNCell, LSTMCell and GRUCell.
template <class Self>
class RecurrentCell : public Layer<Self> {
 public:
  RecurrentState forward(const Tensor& x, const RecurrentState& state = {});
  using Layer<Self>::operator();
  RecurrentState operator()(const Tensor& x, const RecurrentState& state) {
    return Layer<Self>::operator()(x, state);
  }
  Self rebuild() const { return Self(input_size, hidden_size, options); }

  const int64_t input_size, hidden_size;
  const RecurrentCellOptions options;
  const RecurrentParameters part;

 protected:
  RecurrentCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options);
};

class RNNCell : public RecurrentCell<RNNCell> {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {})
      : RecurrentCell(input_size, hidden_size, options) {}
};
class LSTMCell : public RecurrentCell<LSTMCell> {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {})
      : RecurrentCell(input_size, hidden_size, options) {}
};
class GRUCell : public RecurrentCell<GRUCell> {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {})
      : RecurrentCell(input_size, hidden_size, options) {}
};

extern template class RecurrentLayer<RNN>;
extern template class RecurrentLayer<LSTM>;
extern template class RecurrentLayer<GRU>;
extern template class RecurrentCell<RNNCell>;
extern template class RecurrentCell<LSTMCell>;
extern template class RecurrentCell<GRUCell>;

}  // namespace adret
