// Recurrent layers composed of other functions, step by step: what is differentiated again.
#pragma once

#include <adret/autograd/ops/recurrent.h>
#include <adret/core/kernels/recurrent.h>

namespace adret {

// All that a recurrent function takes. Biases, h0, c0 and lengths may be undefined.
struct RecurrentOperands {
  Tensor x;  // (N, T, I), zero where a sample has no step
  RecurrentWeights weights;
  Tensor h0, c0, lengths;
};

// The input's part of the gates, (N, T, G H), with what can be added before the steps: both biases,
// but gru's of the input alone.
Tensor input_gates(const RecurrentOperands& in, kernels::RecurrentCell cell);

// (N, T, 1): whether a sample has a step. lengths (N) are defined.
Tensor present_steps(const Tensor& lengths, int64_t steps);

// rnn, lstm or gru; see autograd/ops/recurrent.h.
RecurrentResult composed_recurrent(const RecurrentOperands& in,
                                   const kernels::RecurrentParams& params);

}  // namespace adret
