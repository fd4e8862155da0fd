// Steps of RMSprop, Adagrad, Lion and LAMB over arenas; Note [Arenas] of optimizer.h has the
// layout.
#pragma once

#include <adret/core/kernels/operand.h>

namespace adret::kernels {

struct RmsGroup {
  double lr, lr_decay, alpha, epsilon, weight_decay, momentum, centered;  // centered: 0 or 1
};

// g += weight_decay * value; squares = alpha * squares + (1 - alpha) * g^2, or for alpha = 1
// squares + g^2; mean = alpha * mean + (1 - alpha) * g;
// d = g / (sqrt(squares - (centered ? mean^2 : 0)) + epsilon); momentum = mu * momentum + d;
// value -= lr / (1 + (t - 1) * lr_decay) * momentum, as in PyTorch. With alpha below 1 that is
// RMSprop (Tieleman and Hinton 2012; centered: Graves 2013), with alpha = 1 Adagrad (Duchi, Hazan
// and Singer 2011). `steps` (parameters) i64 counts each parameter's own steps t and is raised
// first; undefined, t is 1. `mean` and `momentum` are undefined when no group is centered or has
// momentum.
struct RmsStep {
  static constexpr const char* name = "rms_step";
  TensorView values, grads, squares, mean, momentum, masters, steps, segments, groups;

  auto inputs() const {
    return operands(Operand{"values", values}, Operand{"grads", grads}, Operand{"squares", squares},
                    Operand{"mean", mean}, Operand{"momentum", momentum},
                    Operand{"masters", masters}, Operand{"steps", steps},
                    Operand{"segments", segments}, Operand{"groups", groups});
  }
  auto outputs() const {
    return operands(Operand{"values", values}, Operand{"squares", squares}, Operand{"mean", mean},
                    Operand{"momentum", momentum}, Operand{"masters", masters},
                    Operand{"steps", steps});
  }
  double flops() const { return 2.5 * double(values.bytes()); }
};

struct LionGroup {
  double lr, beta1, beta2, weight_decay;
};

// value -= lr * (sign(beta1 * momentum + (1 - beta1) * g) + weight_decay * value), then
// momentum = beta2 * momentum + (1 - beta2) * g (Chen et al. 2023, algorithm 2). The sign of 0 is
// 0, that of NaN NaN.
struct LionStep {
  static constexpr const char* name = "lion_step";
  TensorView values, grads, momentum, masters, segments, groups;

  auto inputs() const {
    return operands(Operand{"values", values}, Operand{"grads", grads},
                    Operand{"momentum", momentum}, Operand{"masters", masters},
                    Operand{"segments", segments}, Operand{"groups", groups});
  }
  auto outputs() const {
    return operands(Operand{"values", values}, Operand{"momentum", momentum},
                    Operand{"masters", masters});
  }
  double flops() const { return 2.0 * double(values.bytes()); }
};

struct LambGroup {
  double lr, beta1, beta2, epsilon, weight_decay;
};

// With m / (1 - beta1^t) and v / (1 - beta2^t) as in Adam, u = m hat / (sqrt(v hat) + epsilon) +
// weight_decay * value; value -= lr * ratio * u, where the ratio of each parameter is |value| / |u|
// of the whole parameter (2-norms), or 1 if one of them is 0 (You et al. 2020, algorithm 2 with
// phi(x) = x). `steps` as AdamStep's.
struct LambStep {
  static constexpr const char* name = "lamb_step";
  TensorView values, grads, first, second, masters, steps, segments, groups;

  auto inputs() const {
    return operands(Operand{"values", values}, Operand{"grads", grads}, Operand{"first", first},
                    Operand{"second", second}, Operand{"masters", masters}, Operand{"steps", steps},
                    Operand{"segments", segments}, Operand{"groups", groups});
  }
  auto outputs() const {
    return operands(Operand{"values", values}, Operand{"first", first}, Operand{"second", second},
                    Operand{"masters", masters}, Operand{"steps", steps});
  }
  double flops() const { return 6.0 * double(values.bytes()); }
};

}  // namespace adret::kernels
