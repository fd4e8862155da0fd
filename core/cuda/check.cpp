// The errors of CUDA, cuBLAS and cuDNN as DeviceError.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::cuda {

namespace {

// What the caller can do about it.
const char* advice_for(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation: return "; nvidia-smi shows who else uses the device's memory";
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
    default: return "";
  }
}

}  // namespace

void throw_status(cudaError_t status, const char* call) {
  cudaGetLastError();  // else the next call would report it again
  throw DeviceError(fmt::format("[cuda] {} gave {} ({}){}", call, cudaGetErrorString(status),
                                cudaGetErrorName(status), advice_for(status)));
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
