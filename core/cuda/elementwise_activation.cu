// Activation functions.
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/elementwise_unary.h>

namespace adret::cuda {

using kernels::UnaryOp;

namespace {

template <class T>
void run_in(const Context& context, const kernels::Unary& call) {
  using A = Accumulator<T>;
  const auto light = [&](auto f) { map_floats<map_unroll, T>(context, call, f); };
  const auto heavy = [&](auto f) { map_floats<1, T>(context, call, f); };
  const A alpha = A(call.alpha), beta = A(call.beta);
  switch (call.op) {
    case UnaryOp::relu:
      return light([] __device__(A x) { return x <= 0 ? A(0) : x; });  // keeps NaN
    case UnaryOp::relu6:
      return light([] __device__(A x) { return x <= 0 ? A(0) : (x >= 6 ? A(6) : x); });
    case UnaryOp::sigmoid: return light([] __device__(A x) { return sigmoid(x); });
    case UnaryOp::tanh: return light([] __device__(A x) { return tanh(x); });
    case UnaryOp::gelu: return light([] __device__(A x) { return gelu_of<T>(x); });
    case UnaryOp::gelu_tanh: return heavy([] __device__(A x) { return gelu_tanh(x); });
    case UnaryOp::silu: return light([] __device__(A x) { return silu(x); });
    case UnaryOp::mish: return heavy([] __device__(A x) { return mish(x); });
    case UnaryOp::softplus: return heavy([=] __device__(A x) { return softplus(x, alpha, beta); });
    case UnaryOp::elu:
      return heavy([=] __device__(A x) { return beta * (x > 0 ? x : alpha * expm1(x)); });
    case UnaryOp::leaky_relu: return light([=] __device__(A x) { return x > 0 ? x : alpha * x; });
    case UnaryOp::hardsigmoid: return light([] __device__(A x) { return hardsigmoid(x); });
    case UnaryOp::hardswish: return light([] __device__(A x) { return hardswish(x); });
    case UnaryOp::softsign: return light([] __device__(A x) { return softsign(x); });
    default: return;  // other families
  }
}

}  // namespace

void run_activation(const Context& context, const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
