// Making of a device's context.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/context.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::cuda {
namespace {

void destroy_cudnn(cudnnHandle_t handle) { cudnn().cudnnDestroy(handle); }
void destroy_cublas(cublasLtHandle_t handle) { cublas().cublasLtDestroy(handle); }

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties;
  ADRET_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties;
}

// A stream of `device`, whichever is current.
Stream make_stream(int device) {
  const DeviceGuard guard(device);
  Stream stream;
  ADRET_CHECK(cudaStreamCreateWithFlags(stream.out(), cudaStreamNonBlocking));
  return stream;
}

}  // namespace

struct Context::Libraries {
  Handle<cudnnHandle_t, destroy_cudnn> cudnn;
  Handle<cublasLtHandle_t, destroy_cublas> cublas;
};

DeviceGuard::DeviceGuard(int device) {
  ADRET_CHECK(cudaGetDevice(&before_));
  if (before_ != device) ADRET_CHECK(cudaSetDevice(device));
}

DeviceGuard::~DeviceGuard() { cudaSetDevice(before_); }

Context::Context(int device)
    : index(device),
      properties(properties_of(device)),
      compute(make_stream(device)),
      copy(make_stream(device)),
      libraries_(std::make_shared<Libraries>()) {}

cudnnHandle_t Context::cudnn() {
  if (!libraries_->cudnn) {
    capture_gate.refuse_capture("cuDNN is loaded", run_once_before);
    const Cudnn& library = cuda::cudnn();
    const DeviceGuard guard(index);
    ADRET_CHECK(library.cudnnCreate(libraries_->cudnn.out()));
    ADRET_CHECK(library.cudnnSetStream(libraries_->cudnn, compute));
  }
  return libraries_->cudnn;
}

cublasLtHandle_t Context::cublas() {
  if (!libraries_->cublas) {
    capture_gate.refuse_capture("cuBLASLt is loaded", run_once_before);
    const DeviceGuard guard(index);
    ADRET_CHECK(cuda::cublas().cublasLtCreate(libraries_->cublas.out()));
  }
  return libraries_->cublas;
}

}  // namespace adret::cuda
