// Copies into a dense output from an operand read by strides: broadcasts and permutations.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/cuda/loop_nest.h>
#include <adret/core/tensor_view.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace adret::cuda {

// y[i] = x[nest's offset at i]; same dtype.
void copy_strided(const Context& context, const LoopNest<1>& nest, const TensorView& x,
                  const TensorView& y);

// The same for permutations between a few lines and blocks of one element from each, in units of 16
// bytes: of 2 to 16 lines (not each number) in dtypes of 2 and 4 bytes. Says no, and does nothing,
// for others.
bool permute_blocks(const Context& context, const LoopNest<1>& nest, const TensorView& x,
                    const TensorView& y);

// The most bytes, at most 16, by which all of the numbers and addresses divide: what can be moved
// at once.
template <class... Numbers>
size_t common_unit(Numbers... numbers) {
  const uint64_t bits = (uint64_t(16) | ... | uint64_t(numbers));
  return size_t(bits & (~bits + 1));
}

// f gets an element type of `bytes` bytes.
template <class F>
void dispatch_unit(size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(uint4{});
  }
}

}  // namespace adret::cuda
