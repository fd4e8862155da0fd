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

// Few windows of many elements: ours had to spread each over a block or more.
bool cudnn_is_faster(const kernels::AvgPool2dForward& call) {
  return call.x.dtype != DType::f64 && call.pool.kernel.area() >= 16 &&
         call.y.numel() <= (int64_t(1) << 15);
}
bool cudnn_is_faster(const kernels::AvgPool2dBackward& call) {
  return call.dx.dtype != DType::f64 && call.pool.kernel.area() >= 1024 &&
         call.dy.numel() <= (int64_t(1) << 15);
}

namespace {

bool cudnn_softmax_is_faster(const TensorView& x, int dim) {
  const int64_t length = x.shape[dim];
  const bool is_last = dim == x.shape.rank() - 1;
  return x.dtype != DType::f64 && length <= (is_last ? 1024 : 32);
}

}  // namespace

bool cudnn_is_faster(const kernels::SoftmaxForward& call) {
  return cudnn_softmax_is_faster(call.x, call.dim);
}
bool cudnn_is_faster(const kernels::SoftmaxBackward& call) {
  return cudnn_softmax_is_faster(call.y, call.dim);
}

}  // namespace adret::cuda
