// Losses of a prediction and its target, element by element, with their sum.
#pragma once

#include <adret/core/kernels/operand.h>

#include <string>

namespace adret::kernels {

// Of a prediction x and a target t, d = x - t.
enum class PairLoss {
  squared,        // d^2
  absolute,       // |d|; slope 0 at 0
  huber,          // d^2 / 2 for |d| up to `knee`, else knee (|d| - knee / 2), Huber 1964
  binary,         // -(t log sigmoid(x) + (1 - t) log sigmoid(-x)), t in 0..1
  divergence,     // t (log t - x), Kullback and Leibler 1951; 0, and without a slope, for t = 0
  log_divergence  // exp(t) (t - x)
};
const char* to_string(PairLoss op);

struct PairLossParams {
  PairLoss op = PairLoss::squared;
  double knee = 1;     // of huber alone
  double divisor = 1;  // of all losses, or of their sum: their number for the mean
  bool operator==(const PairLossParams&) const = default;
};
std::string to_string(const PairLossParams& params);

// loss = op(x, target) / divisor, each or, in a scalar, their sum, which is made in a fixed order;
// x and target have one shape and dtype. loss is f32, f64 for f64 operands. The sum of nothing is
// 0 / divisor.
struct PairLossForward {
  static constexpr const char* name = "pair_loss_forward";
  TensorView x, target, loss;
  PairLossParams loss_params;

  auto inputs() const { return operands(Operand{"x", x}, Operand{"target", target}); }
  auto outputs() const { return operands(Operand{"loss", loss}); }
  double flops() const { return 4.0 * double(x.numel()); }
  std::string params() const { return to_string(loss_params); }
};

// The gradients for that of the loss, of x's shape or a scalar; dx or dtarget may be undefined.
struct PairLossBackward {
  static constexpr const char* name = "pair_loss_backward";
  TensorView x, target, dloss, dx, dtarget;
  PairLossParams loss_params;

  auto inputs() const {
    return operands(Operand{"x", x}, Operand{"target", target}, Operand{"dloss", dloss});
  }
  auto outputs() const { return operands(Operand{"dx", dx}, Operand{"dtarget", dtarget}); }
  double flops() const { return 4.0 * double(x.numel()); }
  std::string params() const { return to_string(loss_params); }
};

}  // namespace adret::kernels
