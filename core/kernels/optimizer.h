// Optimizer steps, gradient clipping, loss scaling and averages of weights over flat arenas: one
// kernel for all parameters.
#pragma once

#include <adret/core/kernels/operand.h>

#include <cstdint>
#include <string>

namespace adret::kernels {

// Note [Arenas]
// Values and gradients of all parameters lie in byte arenas (u8 tensors) at one `value_offset`;
// optimizer state and f32 masters lie in arenas of their own at `state_offset`, in f32 (f64 for f64
// parameters). `segments` is an i64 tensor (parameters, segment_columns) on the device, a row a
// parameter in the order of the values; offsets are multiples of 64. `groups` is an f64 tensor
// (groups, columns named per kernel). A segment that is not active (its parameter got no gradient,
// or UpdateLossScale called the step off) is left alone, state and all. A gradient is what the
// arena holds times the segment's `unscale`. The learning rate and all else that changes between
// steps is read from `groups` by the kernel.
//
// 16-bit parameters are computed in f32. Their masters hold what the values are rounded from: a
// step updates the master and rounds it into the value, so that steps too small to move the value
// still add up (Micikevicius et al. 2018). Without masters (undefined) the values themselves are
// updated.
struct Segment {
  int64_t value_offset;  // bytes
  int64_t state_offset;  // bytes
  int64_t length;        // elements
  int64_t group;
  int64_t dtype;  // DType of value and gradient
  int64_t active;
  int64_t has_gradient = 0;
  double unscale = 1;  // a power of two: 1 / the loss scale
};
inline constexpr int64_t segment_columns = sizeof(Segment) / sizeof(int64_t);
static_assert(sizeof(Segment) == 8 * sizeof(int64_t));

struct SgdGroup {
  double lr, momentum, weight_decay, nesterov;  // nesterov: 0 or 1
};

// g += weight_decay * value; momentum = mu * momentum + g; value -= lr * (nesterov ? g + mu *
// momentum : momentum), as in PyTorch (Sutskever et al. 2013). `momentum` is undefined when no
// group has any.
struct SgdStep {
  static constexpr const char* name = "sgd_step";
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
  double flops() const { return double(values.bytes()); }
};

struct AdamGroup {
  double lr, beta1, beta2, epsilon, weight_decay, decoupled;  // decoupled: 0 Adam, 1 AdamW
};
struct NAdamGroup {
  AdamGroup adam;
  double momentum_decay;
};

enum class AdamRule { adam, nadam, radam };
const char* to_string(AdamRule rule);

// Adam (Kingma and Ba 2015, algorithm 1, with epsilon added to sqrt(v hat)), with `decoupled` as
// AdamW's weight decay (Loshchilov and Hutter 2019). `steps` (parameters) i64 counts each
// parameter's own steps t and is raised first. With first = m and second = v of Adam and
// root = sqrt(v / (1 - beta2^t)), the rules move a value by
//   adam   -lr * m / (1 - beta1^t) / (root + epsilon)
//   nadam  -lr * (mu(t+1) m / (1 - P(t+1)) + (1 - mu(t)) g / (1 - P(t))) / (root + epsilon), with
//          mu(t) = beta1 (1 - 0.96^(t * momentum_decay) / 2) and P(t) = mu(1) ... mu(t) (Dozat
//          2016)
//   radam  -lr * m / (1 - beta1^t) * (rho(t) > 5 ? rect(t) / (root + e) : 1), with rho(t) =
//          rho - 2 t beta2^t / (1 - beta2^t), rho = 2 / (1 - beta2) - 1, and rect(t)^2 =
//          (rho(t) - 4) (rho(t) - 2) rho / ((rho - 4) (rho - 2) rho(t)) (Liu et al. 2020); e is
//          epsilon / sqrt(1 - beta2^t), as in PyTorch
// `products` (parameters) f64 holds P(t) for nadam, whose rows of `groups` are NAdamGroups; it is
// undefined for the others.
struct AdamStep {
  static constexpr const char* name = "adam_step";
  TensorView values, grads, first, second, masters, steps, products, segments, groups;
  AdamRule rule = AdamRule::adam;

  auto inputs() const {
    return operands(Operand{"values", values}, Operand{"grads", grads}, Operand{"first", first},
                    Operand{"second", second}, Operand{"masters", masters}, Operand{"steps", steps},
                    Operand{"products", products}, Operand{"segments", segments},
                    Operand{"groups", groups});
  }
  auto outputs() const {
    return operands(Operand{"values", values}, Operand{"first", first}, Operand{"second", second},
                    Operand{"masters", masters}, Operand{"steps", steps},
                    Operand{"products", products});
  }
  double flops() const { return 3.0 * double(values.bytes()); }
  std::string params() const;
};

// norm (scalar f64) = the 2-norm of all active gradients together, summed in f64.
struct GradientNorm {
  static constexpr const char* name = "gradient_norm";
  TensorView grads, segments, norm;

  auto inputs() const { return operands(Operand{"grads", grads}, Operand{"segments", segments}); }
  auto outputs() const { return operands(Operand{"norm", norm}); }
  double flops() const { return 0.5 * double(grads.bytes()); }
};

// Active gradients times min(1, max_norm / norm) (Pascanu et al. 2013); untouched if norm is not
// finite.
struct ClipByNorm {
  static constexpr const char* name = "clip_by_norm";
  TensorView grads, segments, norm;
  double max_norm = 1;

  auto inputs() const {
    return operands(Operand{"grads", grads}, Operand{"segments", segments}, Operand{"norm", norm});
  }
  auto outputs() const { return operands(Operand{"grads", grads}); }
  double flops() const { return 0.25 * double(grads.bytes()); }
  std::string params() const;
};

// Active gradients clamped to -limit..limit; NaN stays NaN.
struct ClipByValue {
  static constexpr const char* name = "clip_by_value";
  TensorView grads, segments;
  double limit = 1;

  auto inputs() const { return operands(Operand{"grads", grads}, Operand{"segments", segments}); }
  auto outputs() const { return operands(Operand{"grads", grads}); }
  double flops() const { return 0.25 * double(grads.bytes()); }
  std::string params() const;
};

// Dynamic loss scaling (Micikevicius et al. 2018), between the backward pass of a loss times
// `scale` (scalar f32, a power of two) and what uses the gradients. All segments get unscale = 1 /
// scale, and are active if they have a gradient and all gradients are finite. Then for the next
// step: after gradients that are not finite the scale is halved, not below `lowest`; after
// `growth_interval` finite ones in a row it is doubled, not above `largest`. counts (2) i64: finite
// ones in a row, and all that were not.
struct UpdateLossScale {
  static constexpr const char* name = "update_loss_scale";
  TensorView grads, segments, scale, counts;
  double lowest = 1, largest = 0x1p24;
  int64_t growth_interval = 2000;

  auto inputs() const {
    return operands(Operand{"grads", grads}, Operand{"segments", segments}, Operand{"scale", scale},
                    Operand{"counts", counts});
  }
  auto outputs() const {
    return operands(Operand{"segments", segments}, Operand{"scale", scale},
                    Operand{"counts", counts});
  }
  double flops() const { return 0; }
  std::string params() const;
};

// average += (1 - d) * (weight - average) for all segments, active or not, the weight being the
// value or its master; `average` is laid out like the state. d = decay, or with warm_up min(decay,
// (1 + t) / (10 + t)), where `updates` (scalar i64) counts t from 0 and is raised afterwards. With
// `uniform` d = t / (1 + t): the average is the mean of the weights of all updates.
struct AverageWeights {
  static constexpr const char* name = "average_weights";
  TensorView values, masters, average, updates, segments;
  double decay = 0.999;
  bool warm_up = true, uniform = false;

  auto inputs() const {
    return operands(Operand{"values", values}, Operand{"masters", masters},
                    Operand{"average", average}, Operand{"updates", updates},
                    Operand{"segments", segments});
  }
  auto outputs() const {
    return operands(Operand{"average", average}, Operand{"updates", updates});
  }
  double flops() const { return double(values.bytes()); }
  std::string params() const;
};

}  // namespace adret::kernels
