// Recorded calls that one kernel can do together.
#pragma once

#include <adret/core/decorators/record.h>
#include <adret/core/kernels/kernel.h>

#include <string>
#include <vector>

namespace adret {

struct ListedCall {
  Kernel call;
  std::string place;
};

// Note [Fusion]
// What a call leaves for one other call alone, in memory that the step made itself, need not be
// written. This is the one place that knows such pairs; layers and functions record plain calls:
//   linear or convolution, then relu                  the product's own activation
//   gradient of a linear layer's input, then of relu or gelu before it
//   max pooling, then relu                            positions that name no element are relu's
//   zeros gradient of relu before the gradient of pooling   nothing is left to do: those positions
//   gradient of pooling or dropout, then of the relu before them: the same, by positions or mask
//   relu, then dropout                                the mask
//   cross-entropy and its gradient                    one pass over the logits
// A fused call stands where the first of its calls stood. The list's operands are those of the
// recording, which must outlive it.
std::vector<ListedCall> fuse(const Recording& recording);

}  // namespace adret
