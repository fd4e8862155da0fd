// The choice between our own kernels and cuDNN's functions.
#include <adret/core/cuda/implementation.h>
#include <adret/core/error.h>

#include <cstdlib>
#include <string>

namespace adret::cuda {

Implementation parse_implementation(const std::string& value) {
  if (value.empty() || value == "fastest") return Implementation::fastest;
  if (value == "own") return Implementation::own;
  if (value == "cudnn") return Implementation::cudnn;
  throw DeviceError("[cuda] ADRET_CUDA_LAYERS=" + value +
                    " says which kernels run pooling, activations and softmax: use own, cudnn or "
                    "fastest");
}

Implementation asked_implementation() {
  static const Implementation asked = [] {
    const char* value = std::getenv("ADRET_CUDA_LAYERS");
    return parse_implementation(value ? value : "");
  }();
  return asked;
}

bool cudnn_is_faster(const kernels::Unary&) { return false; }
bool cudnn_is_faster(const kernels::UnaryBackward&) { return false; }
bool cudnn_is_faster(const kernels::MaxPool2dForward&) { return false; }
bool cudnn_is_faster(const kernels::AvgPool2dForward&) { return false; }
bool cudnn_is_faster(const kernels::AvgPool2dBackward&) { return false; }
bool cudnn_is_faster(const kernels::SoftmaxForward&) { return false; }
bool cudnn_is_faster(const kernels::SoftmaxBackward&) { return false; }

}  // namespace adret::cuda
