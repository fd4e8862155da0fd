// Which epilogues cuBLASLt computes in its own kernel, and what these read and write.
#pragma once

#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/matmul_plan.h>

namespace adret::cuda {

// ReLU is left to our own kernel: cuBLASLt's turns NaN into 0, and a model whose weights are NaN
// would train on without a sign of it. cuBLASLt's GELU is the approximation by tanh, good to 11
// bits.
inline cublasLtEpilogue_t epilogue_of(Epilogue epilogue, DType dtype) {
  const bool short_enough = size_of(dtype) == 2;
  switch (epilogue) {
    case Epilogue::bias_gelu_tanh:
      return short_enough ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::gelu_tanh_slope:
      return short_enough ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
    case Epilogue::bias_relu: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gradient: return CUBLASLT_EPILOGUE_BGRADB;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// Whether the product can be computed with and without fusion.
inline bool has_fusion(const Product& p, DType dtype) {
  return epilogue_of(p.epilogue, dtype) != CUBLASLT_EPILOGUE_DEFAULT;
}

// Which of the epilogue cuBLASLt does when not all of it.
inline Epilogue epilogue_apart(Epilogue epilogue) {
  return epilogue == Epilogue::bias_gelu_tanh ? Epilogue::bias : Epilogue::none;
}

// What the operation reads or writes besides a, b and y.
struct Beside {
  const void* bias = nullptr;
  const void* matrix = nullptr;  // of GELU: what it is of
  bool operator==(const Beside&) const = default;
};

inline Beside beside_of(const Product& p, const ProductOperands& operands, bool fused) {
  const Epilogue done = fused ? p.epilogue : epilogue_apart(p.epilogue);
  switch (done) {
    case Epilogue::bias_gelu_tanh: return {operands.beside.data, operands.before.data};
    case Epilogue::gelu_tanh_slope: return {nullptr, operands.beside.data};
    case Epilogue::bias:
    case Epilogue::bias_relu:
    case Epilogue::bias_gradient: return {operands.beside.data, nullptr};
    default: return {};
  }
}

// Where the operation writes: with GELU apart, what that is of.
inline const TensorView& result_of(const Product& p, const ProductOperands& operands, bool fused) {
  return p.epilogue == Epilogue::bias_gelu_tanh && !fused ? operands.before : operands.y;
}

}  // namespace adret::cuda
