// Formulas as CUDA kernels, one for each direction: for files that nvcc compiles.
#pragma once

#include <adret/core/formula/device_vector.h>
#include <adret/core/formula/directions.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

namespace adret::formula {
inline namespace ADRET_FORMULA_COMPILER {

inline constexpr int threads_per_block = 256;

// The call's operands, as many as there are.
template <int inputs, int outputs>
struct DeviceOperands {
  int64_t count;
  DType dtype;
  int rank;
  int64_t sizes[Shape::max_rank] = {};
  int64_t strides[Shape::max_rank][inputs] = {};
  const void* in[inputs];
  void* out[outputs];

  explicit DeviceOperands(const DeviceCall& call)
      : count(call.count), dtype(call.dtype), rank(call.rank) {
    std::copy_n(call.sizes, rank, sizes);
    for (int d = 0; d < rank; ++d) std::copy_n(call.strides[d], inputs, strides[d]);
    std::copy_n(call.in, inputs, in);
    std::copy_n(call.out, outputs, out);
  }

  // Whether an input is one element all along the innermost dimension.
  ADRET_FN bool repeats(int i) const { return rank == 0 || strides[rank - 1][i] == 0; }

  // Where the inputs stand for an element of the outputs.
  __device__ void find(int64_t element, int64_t (&places)[inputs]) const {
#pragma unroll
    for (int i = 0; i < inputs; ++i) places[i] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      int64_t index = element;
      if (d > 0) {
        const int64_t size = sizes[d];
        element = count <= INT32_MAX ? int64_t(uint32_t(index) / uint32_t(size)) : index / size;
        index -= element * size;
      }
#pragma unroll
      for (int i = 0; i < inputs; ++i) places[i] += index * strides[d][i];
    }
  }
};

// -- elements ------------------------------------------------------------------------------------

__device__ inline float widened(uint16_t bits, bool is_bf16) {
  return is_bf16 ? __uint_as_float(uint32_t(bits) << 16) : __half2float(__ushort_as_half(bits));
}
__device__ inline uint16_t narrowed(float value, bool is_bf16) {
  return is_bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                 : __half_as_ushort(__float2half_rn(value));
}

// One element: of an f64, or of any other floating dtype.
__device__ inline void load_element(const void* from, int64_t place, DType, double& x) {
  x = static_cast<const double*>(from)[place];
}
__device__ inline void load_element(const void* from, int64_t place, DType dtype, float& x) {
  x = dtype == DType::f32
          ? static_cast<const float*>(from)[place]
          : widened(static_cast<const uint16_t*>(from)[place], dtype == DType::bf16);
}
__device__ inline void store_element(void* to, int64_t place, DType, double y) {
  static_cast<double*>(to)[place] = y;
}
__device__ inline void store_element(void* to, int64_t place, DType dtype, float y) {
  if (dtype == DType::f32) {
    static_cast<float*>(to)[place] = y;
  } else {
    static_cast<uint16_t*>(to)[place] = narrowed(y, dtype == DType::bf16);
  }
}

// -- kernels -------------------------------------------------------------------------------------

// Computed as Number<T>.
template <class T, class Direction, int inputs, int outputs>
__global__ void run_elements(const Direction direction,
                             const __grid_constant__ DeviceOperands<inputs, outputs> operands) {
  const int64_t element = int64_t(blockIdx.x) * threads_per_block + threadIdx.x;
  if (element >= operands.count) return;
  int64_t places[inputs];
  operands.find(element, places);
  Number<T> x[inputs], y[outputs];
#pragma unroll
  for (int i = 0; i < inputs; ++i) {
    load_element(operands.in[i], places[i], operands.dtype, x[i].value);
  }
  direction(x, y);
#pragma unroll
  for (int k = 0; k < outputs; ++k) {
    if (operands.out[k]) store_element(operands.out[k], element, operands.dtype, y[k].value);
  }
}

// In vectors of words, `unroll` for each thread, all of which are loaded before one is used.
template <class T, class Word, int unroll, class Direction, int inputs, int outputs>
__global__ void run_vectors(const Direction direction,
                            const __grid_constant__ DeviceOperands<inputs, outputs> operands) {
  constexpr int n = Vector<Word>::n;
  const int64_t first = (int64_t(blockIdx.x) * unroll * threads_per_block + threadIdx.x) * n;
  const bool is_bf16 = operands.dtype == DType::bf16;
  Vector<Word> loaded[unroll][inputs];
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const int64_t element = first + u * threads_per_block * n;
    if (element >= operands.count) break;
    int64_t places[inputs];
    operands.find(element, places);
#pragma unroll
    for (int i = 0; i < inputs; ++i) {
      const Word* from = static_cast<const Word*>(operands.in[i]) + places[i];
      loaded[u][i] = load_vector(from, operands.repeats(i));
    }
  }
#pragma unroll
  for (int u = 0; u < unroll; ++u) {
    const int64_t element = first + u * threads_per_block * n;
    if (element >= operands.count) break;
    float values[inputs][n], results[outputs][n];
#pragma unroll
    for (int i = 0; i < inputs; ++i) widen(loaded[u][i], is_bf16, values[i]);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      Number<T> x[inputs], y[outputs];
#pragma unroll
      for (int i = 0; i < inputs; ++i) x[i] = values[i][k];
      direction(x, y);
#pragma unroll
      for (int o = 0; o < outputs; ++o) results[o][k] = y[o].value;
    }
#pragma unroll
    for (int o = 0; o < outputs; ++o) {
      Word* const to = static_cast<Word*>(operands.out[o]);
      if (!to) continue;
      *reinterpret_cast<Vector<Word>*>(to + element) = narrow<Word>(results[o], is_bf16);
    }
  }
}

template <class Direction, class Operands>
void launch(void (*kernel)(Direction, Operands), int64_t elements_per_thread,
            const Direction& direction, const DeviceCall& call, void* stream) {
  if (call.count == 0) return;
  const int64_t per_block = threads_per_block * elements_per_thread;
  kernel<<<dim3(unsigned((call.count + per_block - 1) / per_block)), threads_per_block, 0,
           static_cast<cudaStream_t>(stream)>>>(direction, Operands(call));
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw_launch_failed(call.name, cudaGetErrorString(status));
}

template <class F, class Direction>
void launch_direction(const void* formula, const DeviceCall& call, void* stream) {
  constexpr int inputs = Direction::inputs, outputs = Direction::outputs;
  const Direction direction{*static_cast<const F*>(formula)};
  DeviceCall rest = call;  // what does not go in vectors
  if (call.dtype == DType::f64) {
    return launch(run_elements<double, Direction, inputs, outputs>, 1, direction, rest, stream);
  }
  if constexpr (!Direction::is_rare) {
    if (call.dtype == DType::f32) {
      constexpr int unroll = inputs + outputs <= 3 ? 2 : 1;
      launch(run_vectors<float, float, unroll, Direction, inputs, outputs>, 4 * unroll, direction,
             take_vectors(rest, 4), stream);
    } else {
      launch(run_vectors<Short, uint16_t, 1, Direction, inputs, outputs>, 8, direction,
             take_vectors(rest, 8), stream);
    }
  }
  launch(run_elements<float, Direction, inputs, outputs>, 1, direction, rest, stream);
}

}  // namespace ADRET_FORMULA_COMPILER
}  // namespace adret::formula
