// Pooling, activations and softmax through cuDNN's own functions for them.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/cudnn_layers.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace adret::cuda {
namespace {

using kernels::Pool2dParams;
using kernels::UnaryOp;

// -- descriptors ---------------------------------------------------------------------------------

void destroy_tensor(cudnnTensorDescriptor_t descriptor) {
  cudnn().cudnnDestroyTensorDescriptor(descriptor);
}
void destroy_pooling(cudnnPoolingDescriptor_t descriptor) {
  cudnn().cudnnDestroyPoolingDescriptor(descriptor);
}
void destroy_activation(cudnnActivationDescriptor_t descriptor) {
  cudnn().cudnnDestroyActivationDescriptor(descriptor);
}

// Made once a thread and set anew by each call, which is faster than making them.
struct Descriptors {
  Handle<cudnnTensorDescriptor_t, destroy_tensor> x, y;
  Handle<cudnnPoolingDescriptor_t, destroy_pooling> pooling;
  Handle<cudnnActivationDescriptor_t, destroy_activation> activation;

  Descriptors() {
    ADRET_CHECK(cudnn().cudnnCreateTensorDescriptor(x.out()));
    ADRET_CHECK(cudnn().cudnnCreateTensorDescriptor(y.out()));
    ADRET_CHECK(cudnn().cudnnCreatePoolingDescriptor(pooling.out()));
    ADRET_CHECK(cudnn().cudnnCreateActivationDescriptor(activation.out()));
  }
};

Descriptors& descriptors() {
  static thread_local Descriptors result;
  return result;
}

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f16: return CUDNN_DATA_HALF;
    default: return CUDNN_DATA_FLOAT;
  }
}

struct Scaling {
  const void *one, *zero;
};

// y = 1 * result + 0 * y: f64 is scaled in f64, all others in f32.
Scaling scaling(DType dtype) {
  static const float one = 1, zero = 0;
  static const double one_f64 = 1, zero_f64 = 0;
  return dtype == DType::f64 ? Scaling{&one_f64, &zero_f64} : Scaling{&one, &zero};
}

// Whether 32-bit indices reach over a tensor, and there is something to compute.
bool countable(const TensorView& view) {
  return is_floating(view.dtype) && view.numel() > 0 && view.numel() <= INT32_MAX;
}

void set(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format, DType dtype, int64_t n,
         int64_t c, int64_t h, int64_t w) {
  ADRET_CHECK(cudnn().cudnnSetTensor4dDescriptor(descriptor, format, data_type(dtype), int(n),
                                                 int(c), int(h), int(w)));
}

// -- pooling -------------------------------------------------------------------------------------

void set_images(cudnnTensorDescriptor_t descriptor, const TensorView& view) {
  const Shape& s = view.shape;
  set(descriptor, CUDNN_TENSOR_NHWC, view.dtype, s[0], s[3], s[1], s[2]);
}

// Whether the windows are those that cuDNN counts: none reaches beyond the padding, as the last
// ones may when their number was rounded up.
bool windows_inside(const TensorView& x, const TensorView& y, const Pool2dParams& pool) {
  const auto inside = [](int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
    return std::max(kernel, stride) <= INT32_MAX && in + 2 * padding >= kernel &&
           out == (in + 2 * padding - kernel) / stride + 1;
  };
  return inside(x.shape[1], y.shape[1], pool.kernel.h, pool.stride.h, pool.padding.h) &&
         inside(x.shape[2], y.shape[2], pool.kernel.w, pool.stride.w, pool.padding.w);
}

// Sets the descriptors of the windows, of x and of y.
Descriptors& set_pooling(const TensorView& x, const TensorView& y, const Pool2dParams& pool,
                         cudnnPoolingMode_t mode) {
  Descriptors& d = descriptors();
  ADRET_CHECK(cudnn().cudnnSetPooling2dDescriptor(
      d.pooling, mode, CUDNN_PROPAGATE_NAN, int(pool.kernel.h), int(pool.kernel.w),
      int(pool.padding.h), int(pool.padding.w), int(pool.stride.h), int(pool.stride.w)));
  set_images(d.x, x);
  set_images(d.y, y);
  return d;
}

void pool_forward(Context& context, const TensorView& x, const TensorView& y,
                  const Pool2dParams& pool, cudnnPoolingMode_t mode) {
  const Descriptors& d = set_pooling(x, y, pool, mode);
  const auto [one, zero] = scaling(x.dtype);
  ADRET_CHECK(
      cudnn().cudnnPoolingForward(context.cudnn(), d.pooling, one, d.x, x.data, zero, d.y, y.data));
}

cudnnPoolingMode_t average_mode(const Pool2dParams& pool) {
  return pool.count_include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

// -- activations ---------------------------------------------------------------------------------

bool has_activation(UnaryOp op) {
  return op == UnaryOp::relu || op == UnaryOp::sigmoid || op == UnaryOp::tanh;
}

cudnnActivationMode_t activation_mode(UnaryOp op) {
  if (op == UnaryOp::relu) return CUDNN_ACTIVATION_RELU;
  return op == UnaryOp::sigmoid ? CUDNN_ACTIVATION_SIGMOID : CUDNN_ACTIVATION_TANH;
}

// Sets the descriptors of the function and of its operands, all of one shape.
const Descriptors& set_activation(UnaryOp op, const TensorView& operand) {
  Descriptors& d = descriptors();
  ADRET_CHECK(cudnn().cudnnSetActivationDescriptor(d.activation, activation_mode(op),
                                                   CUDNN_PROPAGATE_NAN, 0.0));
  set(d.x, CUDNN_TENSOR_NCHW, operand.dtype, 1, 1, 1, operand.numel());
  return d;
}

// -- softmax -------------------------------------------------------------------------------------

// Sets the descriptor of all operands: (N, C, H, 1), with the softmax along C.
const Descriptors& set_softmax(const TensorView& operand, int dim) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < dim; ++d) outer *= operand.shape[d];
  for (int d = dim + 1; d < operand.shape.rank(); ++d) inner *= operand.shape[d];
  Descriptors& d = descriptors();
  set(d.x, CUDNN_TENSOR_NCHW, operand.dtype, outer, operand.shape[dim], inner, 1);
  return d;
}

cudnnSoftmaxAlgorithm_t softmax_algorithm(bool log) {
  return log ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
}

}  // namespace

// -- what can be done ----------------------------------------------------------------------------

bool cudnn_can(const kernels::Unary& call) { return has_activation(call.op) && countable(call.x); }

// Its gradient of ReLU is 0 where y is NaN, ours is dy.
bool cudnn_can(const kernels::UnaryBackward& call) {
  return call.op != UnaryOp::relu && has_activation(call.op) && countable(call.dx);
}

bool cudnn_can(const kernels::MaxPool2dForward& call) {
  return call.activation == kernels::Activation::none && !call.position.defined() &&
         countable(call.x) && countable(call.y) && windows_inside(call.x, call.y, call.pool);
}

bool cudnn_can(const kernels::AvgPool2dForward& call) {
  return countable(call.x) && countable(call.y) && windows_inside(call.x, call.y, call.pool);
}

bool cudnn_can(const kernels::AvgPool2dBackward& call) {
  return countable(call.dx) && countable(call.dy) && windows_inside(call.dx, call.dy, call.pool);
}

bool cudnn_can(const kernels::SoftmaxForward& call) { return countable(call.x); }
bool cudnn_can(const kernels::SoftmaxBackward& call) { return countable(call.dx); }

// -- doing it ------------------------------------------------------------------------------------

void run_cudnn(Context& context, const kernels::Unary& call) {
  const Descriptors& d = set_activation(call.op, call.x);
  const auto [one, zero] = scaling(call.x.dtype);
  ADRET_CHECK(cudnn().cudnnActivationForward(context.cudnn(), d.activation, one, d.x, call.x.data,
                                             zero, d.x, call.y.data));
}

// The input, which is not kept, stands back for the output: relu, the one function that asks for
// its sign, has the same for both.
void run_cudnn(Context& context, const kernels::UnaryBackward& call) {
  const Descriptors& d = set_activation(call.op, call.dx);
  const auto [one, zero] = scaling(call.dx.dtype);
  ADRET_CHECK(cudnn().cudnnActivationBackward(context.cudnn(), d.activation, one, d.x,
                                              call.saved.data, d.x, call.dy.data, d.x,
                                              call.saved.data, zero, d.x, call.dx.data));
}

void run_cudnn(Context& context, const kernels::MaxPool2dForward& call) {
  pool_forward(context, call.x, call.y, call.pool, CUDNN_POOLING_MAX);
}

void run_cudnn(Context& context, const kernels::AvgPool2dForward& call) {
  pool_forward(context, call.x, call.y, call.pool, average_mode(call.pool));
}

// Averages do not depend on x and y, but cuDNN wants pointers: those of their gradients.
void run_cudnn(Context& context, const kernels::AvgPool2dBackward& call) {
  const Descriptors& d = set_pooling(call.dx, call.dy, call.pool, average_mode(call.pool));
  const auto [one, zero] = scaling(call.dx.dtype);
  ADRET_CHECK(cudnn().cudnnPoolingBackward(context.cudnn(), d.pooling, one, d.y, call.dy.data, d.y,
                                           call.dy.data, d.x, call.dx.data, zero, d.x,
                                           call.dx.data));
}

void run_cudnn(Context& context, const kernels::SoftmaxForward& call) {
  const Descriptors& d = set_softmax(call.x, call.dim);
  const auto [one, zero] = scaling(call.x.dtype);
  ADRET_CHECK(cudnn().cudnnSoftmaxForward(context.cudnn(), softmax_algorithm(call.log),
                                          CUDNN_SOFTMAX_MODE_CHANNEL, one, d.x, call.x.data, zero,
                                          d.x, call.y.data));
}

void run_cudnn(Context& context, const kernels::SoftmaxBackward& call) {
  const Descriptors& d = set_softmax(call.dx, call.dim);
  const auto [one, zero] = scaling(call.dx.dtype);
  ADRET_CHECK(cudnn().cudnnSoftmaxBackward(context.cudnn(), softmax_algorithm(call.log),
                                           CUDNN_SOFTMAX_MODE_CHANNEL, one, d.x, call.y.data, d.x,
                                           call.dy.data, zero, d.x, call.dx.data));
}

}  // namespace adret::cuda
