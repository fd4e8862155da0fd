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

// Along a dimension that is not the last; measured in f32.
bool is_short_column(const TensorView& x, int dim) {
  return dim != x.shape.rank() - 1 && x.dtype == DType::f32 && x.shape[dim] <= 32;
}

// Short rows, which cuDNN gives to fewer threads.
bool is_short_row(const TensorView& x, int dim) {
  return dim == x.shape.rank() - 1 && x.dtype != DType::f64 && x.shape[dim] <= 16;
}

}  // namespace

bool cudnn_is_faster(const kernels::SoftmaxForward& call) {
  const TensorView& x = call.x;
  if (is_short_row(x, call.dim) || is_short_column(x, call.dim)) return true;
  const int64_t length = x.shape[call.dim];
  return call.dim == x.shape.rank() - 1 && x.dtype != DType::f64 && length <= 1024 &&
         x.numel() >= 4096 * length;
}

// Of long rows cuDNN's gradient takes hundreds of times as long.
bool cudnn_is_faster(const kernels::SoftmaxBackward& call) {
  return is_short_row(call.y, call.dim) || is_short_column(call.y, call.dim);
}

}  // namespace adret::cuda
