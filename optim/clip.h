// Clipping of the gradients of several optimizers together.
#pragma once

#include <adret/optim/optimizer.h>

#include <vector>

namespace adret {

// As Optimizer::clip_norm, of all gradients that the optimizers hold: their norm is that of them
// together, and one factor scales them. Throws Error for an empty list, and
// for an optimizer that is null.
Tensor clip_norm(const std::vector<Optimizer*>& optimizers, double max_norm,
                 const ClipNormOptions& options = {});

}  // namespace adret
