// Operands of products for tests that call the kernels themselves.
#pragma once

#include <adret/core/cuda/check.h>
#include <adret/core/cuda/context.h>
#include <adret/core/dtype.h>
#include <adret/core/tensor_view.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace adret::cuda {

// A matrix of small multiples of 1/64, which every dtype holds exactly, at an offset of elements
// from a multiple of 256 bytes.
template <class T>
class Matrix {
 public:
  Matrix(int64_t count, uint32_t seed, int64_t offset = 0) : count_(count) {
    ADRET_CHECK(cudaMallocManaged(memory_.out(), size_t(count + offset + 1) * sizeof(T)));
    data_ = static_cast<T*>(memory_.get()) + offset;
    for (int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      data_[i] = T(float(int(seed >> 24) - 128) / 64);
    }
    guard() = T(-7);
  }
  TensorView view(const Shape& shape) const {
    return {.data = data_, .shape = shape, .dtype = dtype_of<T>};
  }
  double operator[](int64_t i) const { return double(float(data_[i])); }
  bool guard_intact() const { return float(data_[count_]) == -7; }

 private:
  T& guard() { return data_[count_]; }
  static void free_memory(void* data) { cudaFree(data); }
  int64_t count_;
  Handle<void*, free_memory> memory_;
  T* data_;
};

}  // namespace adret::cuda
