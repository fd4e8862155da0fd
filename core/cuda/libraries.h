// cuDNN and cuBLASLt, opened when first needed: what is missing or does not fit becomes a sentence.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include <string>

namespace adret::cuda {

// Every function of the two that is used: calls go through the tables below, so that the backend
// loads without them.
#define ADRET_CUDNN_FUNCTIONS(X)      \
  X(cudnnGetVersion)                  \
  X(cudnnGetErrorString)              \
  X(cudnnGetLastErrorString)          \
  X(cudnnCreate)                      \
  X(cudnnDestroy)                     \
  X(cudnnSetStream)                   \
  X(cudnnBackendCreateDescriptor)     \
  X(cudnnBackendDestroyDescriptor)    \
  X(cudnnBackendSetAttribute)         \
  X(cudnnBackendGetAttribute)         \
  X(cudnnBackendFinalize)             \
  X(cudnnBackendExecute)              \
  X(cudnnCreateTensorDescriptor)      \
  X(cudnnDestroyTensorDescriptor)     \
  X(cudnnSetTensor4dDescriptor)       \
  X(cudnnCreatePoolingDescriptor)     \
  X(cudnnDestroyPoolingDescriptor)    \
  X(cudnnSetPooling2dDescriptor)      \
  X(cudnnPoolingForward)              \
  X(cudnnPoolingBackward)             \
  X(cudnnCreateActivationDescriptor)  \
  X(cudnnDestroyActivationDescriptor) \
  X(cudnnSetActivationDescriptor)     \
  X(cudnnActivationForward)           \
  X(cudnnActivationBackward)          \
  X(cudnnSoftmaxForward)              \
  X(cudnnSoftmaxBackward)

#define ADRET_CUBLAS_FUNCTIONS(X)         \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmul)

#define ADRET_MEMBER(function) decltype(&::function) function = nullptr;
struct Cudnn {
  ADRET_CUDNN_FUNCTIONS(ADRET_MEMBER)
  std::string path;
  size_t version = 0;  // 91900 is 9.19.0
};
struct Cublas {
  ADRET_CUBLAS_FUNCTIONS(ADRET_MEMBER)
  std::string path;
  size_t version = 0;  // 130100 is 13.1.0
};
#undef ADRET_MEMBER

// The libraries that this process uses, opened by the first call. Both throw DeviceError, naming
// versions and paths, when there is none, for another major version than the one compiled against,
// for a cuDNN below 9.14, and for one whose parts are missing or of another version.
const Cudnn& cudnn();
const Cublas& cublas();

// Opens the one that the loader finds under `name`, or at that path: what cudnn() does.
Cudnn open_cudnn(const std::string& name);
Cublas open_cublas(const std::string& name);

// What is used and what this was compiled against.
struct LibraryVersion {
  std::string name, version, path, compiled_version, compiled_path;
};
LibraryVersion version_of(const Cudnn& library);
LibraryVersion version_of(const Cublas& library);
// "cuDNN 9.19.0 at /usr/lib/libcudnn.so.9", with the other version and path where they differ.
std::string to_string(const LibraryVersion& library);

// Where the loader got an open library from; empty when none is open under this name.
std::string path_of_library(const std::string& name);

}  // namespace adret::cuda
