// Derivatives of activation functions.
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/elementwise_unary.h>
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {

using kernels::UnaryOp;

namespace {

template <class T>
void run_in(const Context& context, const kernels::UnaryBackward& call) {
  using A = Accumulator<T>;
  const auto with = [&](auto f) {
    LoopNest<2> nest;
    nest.add(call.dx.numel(), {1, 1});
    zip(context, nest, call.saved.as<T>(), call.dy.as<T>(), call.dx.as<T>(),
        OfFloat<T, decltype(f)>{f});
  };
  const auto heavy = [&](auto f) {
    map_pairs(context, call.saved.as<T>(), call.dy.as<T>(), call.dx.as<T>(), call.dx.numel(),
              OfFloat<T, decltype(f)>{f});
  };
  const A alpha = A(call.alpha), beta = A(call.beta);
  switch (call.op) {
    case UnaryOp::clamp:
      return heavy([=] __device__(A x, A dy) { return x < alpha || x > beta ? A(0) : dy; });
    case UnaryOp::relu: return with([] __device__(A y, A dy) { return y <= 0 ? A(0) : dy; });
    case UnaryOp::relu6:
      return with([] __device__(A y, A dy) { return y <= 0 || y >= 6 ? A(0) : dy; });
    case UnaryOp::sigmoid: return with([] __device__(A y, A dy) { return dy * (y * (1 - y)); });
    case UnaryOp::tanh: return with([] __device__(A y, A dy) { return dy * (1 - y * y); });
    case UnaryOp::gelu: return with([] __device__(A x, A dy) { return dy * gelu_slope_of<T>(x); });
    case UnaryOp::gelu_tanh:
      return heavy([] __device__(A x, A dy) { return dy * gelu_tanh_slope(x); });
    case UnaryOp::silu: return heavy([] __device__(A x, A dy) { return dy * silu_slope(x); });
    case UnaryOp::mish: return heavy([] __device__(A x, A dy) { return dy * mish_slope(x); });
    case UnaryOp::softplus:
      return heavy([=] __device__(A x, A dy) { return dy * softplus_slope(x, alpha, beta); });
    case UnaryOp::elu:
      return heavy(
          [=] __device__(A x, A dy) { return dy * (beta * (x > 0 ? A(1) : alpha * exp(x))); });
    case UnaryOp::leaky_relu:
      return heavy([=] __device__(A x, A dy) { return x > 0 ? dy : alpha * dy; });
    case UnaryOp::hardsigmoid:
      return heavy([] __device__(A x, A dy) { return x <= -3 || x >= 3 ? A(0) : dy * (A(1) / 6); });
    case UnaryOp::hardswish:
      return heavy([] __device__(A x, A dy) { return dy * hardswish_slope(x); });
    case UnaryOp::softsign:
      return heavy([] __device__(A x, A dy) {
        const A below = 1 + fabs(x);
        return dy / (below * below);
      });
    default: throw Error("[unary_backward] has no " + std::string(to_string(call.op)));
  }
}

}  // namespace

void run(Context& context, const kernels::UnaryBackward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.dx.dtype, call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
