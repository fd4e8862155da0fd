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
  X(cudnnGetCudartVersion)            \
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
  X(cublasLtMatmulAlgoInit)               \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoConfigSetAttribute) \
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
// versions and paths, when there is none, or for cuDNN another major version than the one compiled
// against, or one below 9.14.
const Cudnn& cudnn();
const Cublas& cublas();

// Opens the one that the loader finds under `name`, or at that path: what cudnn() does.
Cudnn open_cudnn(const std::string& name);
Cublas open_cublas(const std::string& name);

}  // namespace adret::cuda
