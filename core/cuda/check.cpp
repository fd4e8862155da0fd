// The errors of CUDA, cuBLAS and cuDNN as DeviceError.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::cuda {

void throw_status(cudaError_t status, const char* call) {
  cudaGetLastError();  // else the next call would report it again
  throw DeviceError(fmt::format("[cuda] {} gave {} ({})", call, cudaGetErrorString(status),
                                cudaGetErrorName(status)));
}

void throw_status(cublasStatus_t status, const char* call) {
  throw DeviceError(
      fmt::format("[cuda] {} gave {}", call, cublas().cublasLtGetStatusString(status)));
}

void throw_status(cudnnStatus_t status, const char* call) {
  char detail[512] = {};
  cudnn().cudnnGetLastErrorString(detail, sizeof(detail));
  throw DeviceError(fmt::format("[cuda] {} gave {}{}{}", call, cudnn().cudnnGetErrorString(status),
                                *detail ? ": " : "", detail));
}

}  // namespace adret::cuda
