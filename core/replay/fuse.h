// Recorded calls that one kernel can do together.
#pragma once

#include <adret/core/replay/call_list.h>

namespace adret {

// Note [Fusion]
// What a call leaves for one other call alone, in memory that the step made itself, need not be
// written. This is the one place that knows such pairs; layers and functions record plain calls:
//   linear, convolution or batch norm, then relu      the kernel's own activation
//   batch norm, then a sum                            its residual
//   gradient of a linear layer's input, then of relu or a gelu before it
//   gradient of relu, then of batch norm              its own mask
//   sum of two gradients, then that of batch norm with a residual   the sum
//   max pooling, then relu                            positions that name no element are relu's
//   zeros gradient of relu before the gradient of pooling   nothing is left to do: those positions
//   gradient of pooling or dropout, then of the relu before them: the same, by positions or mask
//   relu, then dropout                                the mask
//   cross-entropy and its gradient                    one pass over the logits
//   a sum, then layer, RMS, group or instance norm    the norm's own sum
//   gradient of such a norm, then its sum with another gradient    the same
//   images flattened for a linear layer               its weights are turned instead, beside the
//   rest
// A fused call stands where one of its calls stood.
void fuse(CallList& list);

// The families of pairs, each in a file of its own: whether call `i` was replaced with another.
bool fuse_activation(CallList& list, size_t i);
bool fuse_norm(CallList& list, size_t i);
bool fuse_loss(CallList& list, size_t i);
bool fuse_flatten(CallList& list, size_t i);
bool fuse_group_norm(CallList& list, size_t i);

}  // namespace adret
