// Cross-entropy of logits, or of log-probabilities, against class indices.
#pragma once

#include <adret/core/kernels/operand.h>

#include <cstdint>
#include <string>

namespace adret::kernels {

enum class Reduction { none, mean, sum };
const char* to_string(Reduction reduction);

struct CrossEntropyParams {
  double label_smoothing = 0;   // Szegedy et al. 2016: target (1 - s) onehot + s / C
  int64_t ignore_index = -100;  // samples with this label count for nothing
  Reduction reduction = Reduction::mean;
  // Whether the logits are log-probabilities, which are taken as they are: log_sum_exp and softmax
  // count as 0, and log_sum_exp is left undefined. Without label_smoothing.
  bool log_probabilities = false;
  bool operator==(const CrossEntropyParams&) const = default;
};
std::string to_string(const CrossEntropyParams& params);

// Per sample: sum_c target_c (log_sum_exp(x) - x_c); logits (N, C), labels (N) i32 or i64 within
// 0..C-1 or ignore_index. loss is a scalar, or (N) without reduction; the mean is over the samples
// that count, 0 when there are none. log_sum_exp (N) and the number that count (`counted`, scalar)
// are kept for the backward; all three are f32, f64 for f64 logits. With class_weights (C), of
// loss's dtype, or undefined: target_c is times class_weights_c, and the mean is divided by the sum
// of class_weights[label] over the samples that count, which `counted` is then. A label out of
// range, which callers refuse, makes that sample's loss and gradient NaN. If `dlogits` is defined,
// it gets the gradient too, as of CrossEntropyBackward for `dloss`.
struct CrossEntropyForward {
  static constexpr const char* name = "cross_entropy_forward";
  TensorView logits, labels, class_weights, loss, log_sum_exp, counted, dloss, dlogits;
  CrossEntropyParams loss_params;

  auto inputs() const {
    return operands(Operand{"logits", logits}, Operand{"labels", labels},
                    Operand{"class_weights", class_weights}, Operand{"dloss", dloss});
  }
  auto outputs() const {
    return operands(Operand{"loss", loss}, Operand{"log_sum_exp", log_sum_exp},
                    Operand{"counted", counted}, Operand{"dlogits", dlogits});
  }
  double flops() const { return (dlogits.defined() ? 8.0 : 4.0) * double(logits.numel()); }
  std::string params() const { return to_string(loss_params); }
};

// dlogits = (sum(target) softmax - target) * dloss, divided by `counted` for the mean. That of
// log-probabilities does not read them: `logits` may be undefined.
struct CrossEntropyBackward {
  static constexpr const char* name = "cross_entropy_backward";
  TensorView logits, labels, class_weights, log_sum_exp, counted, dloss, dlogits;
  CrossEntropyParams loss_params;

  auto inputs() const {
    return operands(Operand{"logits", logits}, Operand{"labels", labels},
                    Operand{"class_weights", class_weights}, Operand{"log_sum_exp", log_sum_exp},
                    Operand{"counted", counted}, Operand{"dloss", dloss});
  }
  auto outputs() const { return operands(Operand{"dlogits", dlogits}); }
  double flops() const { return 4.0 * double(dlogits.numel()); }
  std::string params() const { return to_string(loss_params); }
};

}  // namespace adret::kernels
