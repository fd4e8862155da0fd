// Descriptions of tensors for copies of tiles into shared memory; from sm_90 on.
#pragma once

#include <adret/core/dtype.h>
#include <cuda.h>

#include <cstdint>
#include <span>

namespace adret::cuda {

// A tensor of 16-bit elements and the box that one copy takes of it, sizes innermost first; `steps`
// are the elements from one to the next of each dimension but the innermost, by default those of a
// dense tensor. The innermost of the box is 64, and rows of 128 bytes are swizzled by their
// addresses. Elements outside the tensor are read as zero. Throws DeviceError when the driver
// cannot describe it.
CUtensorMap tensor_map(const void* data, DType dtype, std::span<const int64_t> sizes,
                       std::span<const int64_t> box, std::span<const int64_t> steps = {});

}  // namespace adret::cuda
