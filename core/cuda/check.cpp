// The errors of CUDA, cuBLAS and cuDNN as DeviceError, or OutOfMemory.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::cuda {

namespace {

// What the caller can do about it.
const char* advice_for(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
      return "; kernels run while the host goes on, so it may be of an earlier one: with "
             "ADRET_CUDA_SYNC=1 in the environment the error names it. The process cannot use the "
             "device any more";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
      return "; a captured step may only run kernels, each of which was run once before";
    default: return "";
  }
}

// CUDA and its libraries take memory beside the pool: for handles, modules and scratch.
[[noreturn]] void throw_out_of_memory(const char* call, const char* status) {
  throw OutOfMemory(
      fmt::format("[cuda] {} gave {}; the memory that the pool kept is given back: call again, or "
                  "use a smaller "
                  "batch or model; nvidia-smi shows who else uses the device's memory",
                  call, status));
}

}  // namespace

void throw_status(cudaError_t status, const char* call) {
  cudaGetLastError();  // else the next call would report it again
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(call, cudaGetErrorName(status));
  throw DeviceError(fmt::format("[cuda] {} gave {} ({}){}", call, cudaGetErrorString(status),
                                cudaGetErrorName(status), advice_for(status)));
}

void throw_status(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw_out_of_memory(call, cublas().cublasLtGetStatusString(status));
  }
  throw DeviceError(
      fmt::format("[cuda] {} gave {}", call, cublas().cublasLtGetStatusString(status)));
}

void throw_status(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_ALLOC_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    throw_out_of_memory(call, cudnn().cudnnGetErrorString(status));
  }
  char detail[512] = {};
  cudnn().cudnnGetLastErrorString(detail, sizeof(detail));
  throw DeviceError(fmt::format("[cuda] {} gave {}{}{}", call, cudnn().cudnnGetErrorString(status),
                                *detail ? ": " : "", detail));
}

}  // namespace adret::cuda
