// The CUDA part of a custom kernel: for files that see CUDA's headers.
#pragma once

#include <adret/core/kernels/custom.h>
#include <cuda_runtime_api.h>

namespace adret {

// Registers what runs a kernel on a GPU when the program, or the shared library that it is linked
// into, is loaded. In a .cu file that includes the kernel's header and is compiled only where there
// is CUDA:
//   void run(const Blur& blur, const CustomCall& call, cudaStream_t stream) {
//     blur_rows<<<blocks, threads, 0, stream>>>(...);
//   }
//   const CudaPart<Blur> blur_part(run);
// What it launches goes on `stream`, on operands on the device; it must neither wait nor read on
// the host. A launch that fails is thrown as DeviceError with the kernel's name. The kernel has a
// namespace with a name. One part a kernel: with two, running it is an error. (A linker drops an
// object of a static library that nothing refers to, and the part with it.)
template <class K>
class CudaPart {
 public:
  using Function = void (*)(const K& kernel, const CustomCall& call, cudaStream_t stream);
  explicit CudaPart(Function part, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
    add_cuda_part(
        typeid(K),
        {.run = &run, .part = reinterpret_cast<void (*)()>(part), .file = file, .line = line});
  }

 private:
  static void run(void (*part)(), const AnyCustomKernel& kernel, const CustomCall& call,
                  void* stream) {
    reinterpret_cast<Function>(part)(static_cast<const CustomKernelOf<K>&>(kernel).get(), call,
                                     static_cast<cudaStream_t>(stream));
    // Here, as each shared object that links the CUDA runtime statically has errors of its own.
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) throw_launch_failed(kernel.name(), cudaGetErrorString(status));
  }
};

}  // namespace adret
