// Recurrent layers over whole sequences, behind the products of the input.
#pragma once

#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

enum class RecurrentCell { tanh, relu, lstm, gru };
const char* to_string(RecurrentCell cell);

struct RecurrentParams {
  RecurrentCell cell = RecurrentCell::tanh;
  bool reverse = false;  // from a sample's last step to its first; outputs stay with their steps
  bool operator==(const RecurrentParams&) const = default;

  int64_t gates() const {
    return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
  }
  // Rows of H that the backward pass reads again, of each step: of lstm the activated gates i, f,
  // g, o; of gru the activated r, z, n and the hidden state's product for n; else none.
  int64_t saved() const {
    return cell == RecurrentCell::tanh || cell == RecurrentCell::relu ? 0 : 4;
  }
};
std::string to_string(const RecurrentParams& params);

// For each step in order: gates = x + h weight^T + bias, and from them the new h and (lstm) c by
// the formulas in autograd/ops/recurrent.h. x (N, T, G H) is the products of the input with its
// bias, weight (G H, H), bias (G H) or undefined; h0 and c0 (N, H) the first state, or undefined
// for zeros; lengths (N) i32 or i64, or undefined: from there on steps leave the state as it is and
// have outputs 0; x is not read there. y (N, T, H) is the h of every step, h and c (N, H) are those
// of a sample's last step. The backward pass wants `saved` (N, T, saved() H) and (lstm) `cells` (N,
// T, H), the c of every step; else they are undefined. T is at least 1; sums in f32, f64 for f64.
struct RecurrentForward {
  static constexpr const char* name = "recurrent_forward";
  TensorView x, weight, bias, h0, c0, lengths, y, h, c, saved, cells;
  RecurrentParams recurrent;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"weight", weight}, Operand{"bias", bias},
                    Operand{"h0", h0}, Operand{"c0", c0}, Operand{"lengths", lengths});
  }
  auto outputs() const {
    return operands(Operand{"y", y}, Operand{"h", h}, Operand{"c", c}, Operand{"saved", saved},
                    Operand{"cells", cells});
  }
  double flops() const { return 2.0 * double(x.numel()) * double(weight.shape[1]); }
  std::string params() const { return to_string(recurrent); }
};

// dx (N, T, G H), the gradient of the gates' sums, from those of y, h and c, of which each may be
// undefined for zeros; zero where a sample has no step. dhidden (N, T, G H), of gru alone, is the
// gradient of h weight^T + bias, which differs from dx in n's rows. dh0 and dc0 (N, H) may be
// undefined. The gradients of weight and bias are products of these and of h; they are not made
// here.
struct RecurrentBackward {
  static constexpr const char* name = "recurrent_backward";
  TensorView weight, h0, c0, lengths, y, saved, cells, dy, dh, dc, dx, dhidden, dh0, dc0;
  RecurrentParams recurrent;

  auto inputs() const {
    return operands(Operand{"weight", weight}, Operand{"h0", h0}, Operand{"c0", c0},
                    Operand{"lengths", lengths}, Operand{"y", y}, Operand{"saved", saved},
                    Operand{"cells", cells}, Operand{"dy", dy}, Operand{"dh", dh},
                    Operand{"dc", dc});
  }
  auto outputs() const {
    return operands(Operand{"dx", dx}, Operand{"dhidden", dhidden}, Operand{"dh0", dh0},
                    Operand{"dc0", dc0});
  }
  double flops() const { return 2.0 * double(dx.numel()) * double(weight.shape[1]); }
  std::string params() const { return to_string(recurrent); }
};

}  // namespace adret::kernels
