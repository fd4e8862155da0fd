// Statuses of CUDA and its libraries: each call that fails becomes an error with the call's text.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace adret::cuda {

[[noreturn]] void throw_status(cudaError_t status, const char* call);
[[noreturn]] void throw_status(cublasStatus_t status, const char* call);
[[noreturn]] void throw_status(cudnnStatus_t status, const char* call);

// Zero is success in all three.
template <class Status>
inline void check(Status status, const char* call) {
  if (status != Status{}) throw_status(status, call);
}

}  // namespace adret::cuda

// ADRET_CHECK(cudaMalloc(&data, bytes)) throws DeviceError, or OutOfMemory, with the text in the
// brackets.
#define ADRET_CHECK(call) ::adret::cuda::check((call), #call)
