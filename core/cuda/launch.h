// Launching of our own kernels, and what they are made of: element types, vectors, grids.
#pragma once

#include <adret/core/cuda/check.h>
#include <adret/core/cuda/context.h>
#include <adret/core/dtype.h>
#include <adret/core/error.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace adret::cuda {

// -- element types -------------------------------------------------------------------------------

// What elements of T are computed in: f64 for f64, f32 for the other floats.
template <class T>
struct AccumulatorOf {
  using type = float;
};
template <>
struct AccumulatorOf<double> {
  using type = double;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

// Of a number in the accumulator's type, rounded to nearest.
template <class T>
__device__ inline T narrow(Accumulator<T> value) {
  return T(value);
}
template <class T>
__device__ inline Accumulator<T> widen(T value) {
  return Accumulator<T>(value);
}

// f gets a value of the dtype's C++ type: dispatch_float(x.dtype, name, [&](auto zero) {...}).
// Throws ShapeError naming the kernel for a dtype that is no float.
template <class F>
void dispatch_float(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(__nv_bfloat16{});
    case DType::f16: return f(__half{});
    default:
      throw ShapeError(std::string("[") + kernel + "] runs in floating dtypes, not in " +
                       adret::name(dtype));
  }
}

template <class F>
void dispatch_all(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::bf16: return f(__nv_bfloat16{});
    case DType::f16: return f(__half{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::u8: return f(uint8_t{});
    case DType::boolean: return f(bool{});
  }
}

// For kernels that only move elements: f gets an unsigned integer of the dtype's size.
template <class F>
void dispatch_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

// -- vectors -------------------------------------------------------------------------------------

// What one thread loads or stores at once: 16 bytes of T unless told otherwise.
template <class T, int n = 16 / int(sizeof(T))>
struct alignas(sizeof(T) * n) Vector {
  T at[n];
};

// Whether all pointers may be read as 16-byte vectors.
template <class... Pointers>
bool aligned_16(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) & 15) == 0;
}

// -- launching -----------------------------------------------------------------------------------

struct Grid {
  dim3 blocks;
  dim3 threads = 256;
  size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks of a thread block cluster, neighbours along x: from sm_90 on
};

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Enough blocks of `threads` for `items` threads of work, at most what fills the device eight times
// over: the kernel loops over the rest.
inline Grid grid_for(const Context& context, int64_t items, int threads = 256) {
  const int64_t most = int64_t(context.multiprocessors()) * (2048 / threads) * 8;
  return {.blocks = dim3(unsigned(std::min(divide_up(items, threads), most))),
          .threads = dim3(unsigned(threads))};
}

// Note [Kernels that start early]
// From sm_90 on a kernel's blocks may take their places while the kernel before runs its last ones
// ("programmatic dependent launch"), which hides part of what a launch costs. So every kernel of
// ours begins with begin_kernel(): it waits until all that was launched before is done and its
// writes are seen. It does not let the next one come before its own blocks end, which was slower
// (docs/design.md). Kernels of libraries neither come early nor let others.
__device__ inline void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Runs a __global__ function on the compute stream, `how` being an attribute or null; nothing for a
// grid of no blocks.
template <class... Parameters, class... Arguments>
void launch_as(const Context& context, const cudaLaunchAttribute* how,
               void (*kernel)(Parameters...), const Grid& grid, Arguments&&... arguments) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = context.compute;
  config.attrs = attributes;
  if (how) attributes[config.numAttrs++] = *how;
  if (grid.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {grid.cluster, 1, 1};
  }
  ADRET_CHECK(cudaLaunchKernelEx(&config, kernel,
                                 static_cast<Parameters>(std::forward<Arguments>(arguments))...));
}

// The usual way: the kernel's first statement is begin_kernel().
template <class... Parameters, class... Arguments>
void launch(const Context& context, void (*kernel)(Parameters...), const Grid& grid,
            Arguments&&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  launch_as(context, context.properties.major >= 9 ? &early : nullptr, kernel, grid,
            std::forward<Arguments>(arguments)...);
}

// For kernels whose blocks wait for each other: all of them run at once, or CUDA refuses. The
// device has properties.cooperativeLaunch. Such a kernel does not start early.
template <class... Parameters, class... Arguments>
void launch_together(const Context& context, void (*kernel)(Parameters...), const Grid& grid,
                     Arguments&&... arguments) {
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  launch_as(context, &together, kernel, grid, std::forward<Arguments>(arguments)...);
}

// The loop of a thread over `count` items: for (int64_t i = first_item(); i < count; i +=
// all_threads()).
__device__ inline int64_t first_item() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t all_threads() { return int64_t(gridDim.x) * blockDim.x; }

}  // namespace adret::cuda
