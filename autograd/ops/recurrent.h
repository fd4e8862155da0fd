// Recurrent layers over whole sequences: one layer in one direction each.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// Rows are those of the gates, one below the other in PyTorch's order; G is their number.
struct RecurrentWeights {
  Tensor input;             // (G H, I)
  Tensor hidden;            // (G H, H)
  Tensor input_bias = {};   // (G H), or none
  Tensor hidden_bias = {};  // (G H), or none
};

// Undefined parts are zeros. Only lstm has a cell c.
struct RecurrentState {
  Tensor h = {}, c = {};
};

struct RecurrentResult {
  Tensor output;  // the h of every step
  Tensor h, c;    // of a sample's last step; c of lstm alone
};

struct RecurrentOptions {
  // (N) i32 or i64: the steps that a sample has. What is beyond is not read, leaves the state as it
  // is and gives outputs 0. The lengths are never read on the host: one above T counts as T, one
  // below 0 as 0.
  Tensor lengths = {};
  bool reverse = false;  // from a sample's last step to its first; outputs stay with their steps
};

enum class RecurrentActivation { tanh, relu };
struct RnnOptions {
  RecurrentActivation activation = RecurrentActivation::tanh;
  Tensor lengths = {};
  bool reverse = false;
};

// Each takes x (N, T, I) and a state (N, H) and gives the output (N, T, H) and the last state (N,
// H). They can be differentiated again, then step by step; the products with x are one for all
// steps, those with h are exact in any math mode. All throw ShapeError for no steps and when shapes
// or dtypes do not agree, DeviceError for several devices.

// h' = activation(W x + b + U h + d) (Elman 1990), where W and b are the weights and bias of the
// input, U and d those of the hidden state.
RecurrentResult rnn(const Tensor& x, const Tensor& h, const RecurrentWeights& weights,
                    const RnnOptions& options = {});

// Gates i, f, g, o = W x + b + U h + d; c' = sigmoid(f) c + sigmoid(i) tanh(g);
// h' = sigmoid(o) tanh(c') (Hochreiter and Schmidhuber 1997, the gate f by Gers et al. 2000).
RecurrentResult lstm(const Tensor& x, const RecurrentState& state, const RecurrentWeights& weights,
                     const RecurrentOptions& options = {});

// Gates r, z, n of W x + b and U h + d; r and z are the sigmoids of their sums, n = tanh(n of x +
// r * n of h), h' = (1 - z) n + z h (Cho et al. 2014; the reset gate r comes behind the product, as
// in PyTorch and cuDNN).
RecurrentResult gru(const Tensor& x, const Tensor& h, const RecurrentWeights& weights,
                    const RecurrentOptions& options = {});

}  // namespace adret
