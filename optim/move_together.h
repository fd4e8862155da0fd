// Tensors that move into one block of memory, so that one kernel serves all.
#pragma once

#include <adret/core/tensor.h>

#include <vector>

namespace adret {

// Copies the tensors, which lie on one device, into a new block (u8), each at a multiple of 512
// bytes; all handles on them stay valid. Undefined if there are none.
Tensor move_together(const std::vector<Tensor>& tensors);

}  // namespace adret
