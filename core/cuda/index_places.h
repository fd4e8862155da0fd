// Indices along a dimension of a tensor, as kernels read them.
#pragma once

#include <adret/core/dtype.h>
#include <adret/core/tensor_view.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace adret::cuda {

// i32 or i64; null data for none. Labels and lengths are read so, too.
struct Indices {
  const void* data;
  bool is_i64;

  __device__ int64_t operator[](int64_t i) const {
    return is_i64 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

inline Indices indices_of(const TensorView& indices) {
  return {indices.data, indices.dtype == DType::i64};
}

// Elements of one place along a dimension.
inline int64_t inner_size(const Shape& shape, int dim) {
  int64_t size = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) size *= shape[d];
  return size;
}

// What an element is whose index lies outside the dimension: NaN, or 0 of no float. All of its
// bytes are alike.
inline uint32_t absent_bits(DType dtype) { return is_floating(dtype) ? ~0u : 0u; }

// A T of as many copies of these 32 bits as it holds.
template <class T>
T repeated(uint32_t bits) {
  if constexpr (std::is_same_v<T, uint4>) {
    return {bits, bits, bits, bits};
  } else if constexpr (sizeof(T) == 8) {
    return T(bits) << 32 | bits;
  } else {
    return T(bits);
  }
}

}  // namespace adret::cuda
