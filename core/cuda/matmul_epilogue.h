// What follows a product in its kernel, at one place of y.
#pragma once

#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/matmul_plan.h>

namespace adret::cuda {

// What the epilogue reads beside the product for y at `row`, `column`; zero if nothing.
template <class T>
__device__ Accumulator<T> beside_at(Epilogue epilogue, const T* beside, int row, int column,
                                    int columns) {
  switch (epilogue) {
    case Epilogue::bias:
    case Epilogue::bias_relu: return widen(beside[column]);
    case Epilogue::relu_slope:
    case Epilogue::gelu_slope:
    case Epilogue::gelu_tanh_slope: return widen(beside[int64_t(row) * columns + column]);
    default: return 0;
  }
}

// y of the product's value and of what is beside it.
template <class A>
__device__ A after(Epilogue epilogue, A value, A beside) {
  switch (epilogue) {
    case Epilogue::none:
    case Epilogue::bias_gradient: return value;
    case Epilogue::bias: return value + beside;
    case Epilogue::relu: return value < 0 ? A(0) : value;  // NaN stays
    case Epilogue::bias_relu: value += beside; return value < 0 ? A(0) : value;
    case Epilogue::relu_slope: return beside <= 0 ? A(0) : value;
    case Epilogue::gelu_slope: return value * gelu_slope(beside);
    case Epilogue::gelu_tanh_slope: return value * gelu_tanh_slope(beside);
    case Epilogue::bias_gelu_tanh: break;  // of cuBLASLt alone
  }
  return value;
}

}  // namespace adret::cuda
