// cuBLASLt's descriptors, layouts and preferences as values, and what our dtypes are to it.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/context.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/dtype.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <cstdint>

namespace adret::cuda {

inline void destroy_descriptor(cublasLtMatmulDesc_t value) {
  cublas().cublasLtMatmulDescDestroy(value);
}
inline void destroy_layout(cublasLtMatrixLayout_t value) {
  cublas().cublasLtMatrixLayoutDestroy(value);
}
inline void destroy_preference(cublasLtMatmulPreference_t value) {
  cublas().cublasLtMatmulPreferenceDestroy(value);
}
using Descriptor = Handle<cublasLtMatmulDesc_t, destroy_descriptor>;
using Layout = Handle<cublasLtMatrixLayout_t, destroy_layout>;
using Preference = Handle<cublasLtMatmulPreference_t, destroy_preference>;

template <class T>
void set(const Descriptor& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  ADRET_CHECK(cublas().cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
}
template <class T>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  ADRET_CHECK(cublas().cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)));
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  ADRET_CHECK(
      cublas().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

inline cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default:
      throw ShapeError(
          fmt::format("[matmul] runs in floating dtypes, not in {}", adret::name(dtype)));
  }
}

// Factors of the product and of what it is added to, in the type that sums are in.
inline const void* scalar(DType dtype, bool is_one) {
  static constexpr float floats[] = {0, 1};
  static constexpr double doubles[] = {0, 1};
  return dtype == DType::f64 ? static_cast<const void*>(&doubles[is_one]) : &floats[is_one];
}

// f32 sums in f32, of products of f32 operands that are exact unless TF32 was asked for.
inline cublasComputeType_t compute_type(DType dtype, MathMode math) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = dtype == DType::f32 && math == MathMode::tf32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Of a (rows, columns) row-major, `batch` of them in a row.
inline Layout make_layout(DType dtype, int64_t rows, int64_t columns, int64_t batch) {
  Layout layout;
  ADRET_CHECK(cublas().cublasLtMatrixLayoutCreate(layout.out(), data_type(dtype), uint64_t(columns),
                                                  uint64_t(rows), columns));
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }
  return layout;
}

}  // namespace adret::cuda
