// Tensors that move into one block of memory, so that one kernel serves all.
#pragma once

#include <adret/core/tensor.h>

#include <cstdint>
#include <vector>

namespace adret {

// The bytes that a tensor of so many takes in a block or an arena: a multiple of 512.
constexpr int64_t padded_bytes(int64_t bytes) { return (bytes + 511) / 512 * 512; }

struct Together {
  Tensor block;                // u8; undefined if there are no tensors
  std::vector<Tensor> places;  // in it, of each tensor
  std::vector<bool> moved;
};

// Copies the tensors, which lie on one device, into a new block. Those without views move there,
// and all handles on them stay valid; views would be left behind, so tensors that have any stay.
Together move_together(const std::vector<Tensor>& tensors);

}  // namespace adret
