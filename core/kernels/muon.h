// The two ends of a step of Muon (Jordan et al. 2024): from a gradient to the direction, and from
// the orthogonalised direction to the weights.
#pragma once

#include <adret/core/kernels/operand.h>

namespace adret::kernels {

// A row of the optimizer's table.
struct MuonGroup {
  double lr, momentum, nesterov, weight_decay, normalize;  // nesterov and normalize: 0 or 1
};

// `segment` is the parameter's row of the arena's table (Note [Arenas]) and `group` its group's: if
// the parameter is not active, momentum and weights stay, and the direction is 0.

// g = grad * the segment's unscale; momentum = mu * momentum + g;
// d = nesterov ? g + mu * momentum : momentum;
// direction = d / (|d| + 1e-7), |d| being the Frobenius norm.
// grad and direction have one dtype, momentum is f32 (f64 for f64).
struct MuonDirection {
  static constexpr const char* name = "muon_direction";
  static constexpr double epsilon = 1e-7;
  TensorView grad, momentum, segment, group, direction;

  auto inputs() const {
    return operands(Operand{"grad", grad}, Operand{"momentum", momentum},
                    Operand{"segment", segment}, Operand{"group", group});
  }
  auto outputs() const {
    return operands(Operand{"momentum", momentum}, Operand{"direction", direction});
  }
  double flops() const { return 7.0 * double(grad.numel()); }
};

// weights = scale * weights - lr * update, where scale is 1 - lr * weight_decay, and with
// `normalize` that times sqrt(rows) / |weights|. The weights (rows, ...) are the value's, or those
// of its f32 master, which is then rounded into the value; `update` has the value's dtype.
struct MuonStep {
  static constexpr const char* name = "muon_step";
  TensorView value, master, update, segment, group;

  auto inputs() const {
    return operands(Operand{"value", value}, Operand{"master", master}, Operand{"update", update},
                    Operand{"segment", segment}, Operand{"group", group});
  }
  auto outputs() const { return operands(Operand{"value", value}, Operand{"master", master}); }
  double flops() const { return 5.0 * double(value.numel()); }
};

}  // namespace adret::kernels
