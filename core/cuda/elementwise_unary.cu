// Functions of one operand and their derivatives.
#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/elementwise.h>
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {

using kernels::UnaryOp;

namespace {

// f in the type that T is computed in.
template <class T, class F>
struct OfFloat {
  F f;
  __device__ T operator()(T x) const { return narrow<T>(f(widen(x))); }
  __device__ T operator()(T saved, T dy) const { return narrow<T>(f(widen(saved), widen(dy))); }
};

template <class T>
void run_unary(const Context& context, const kernels::Unary& call) {
  using A = Accumulator<T>;
  const auto with = [&](auto f) {
    map(context, call.x.as<T>(), call.y.as<T>(), call.y.numel(), OfFloat<T, decltype(f)>{f});
  };
  const A alpha = A(call.alpha), beta = A(call.beta);
  switch (call.op) {
    case UnaryOp::affine: return with([=] __device__(A x) { return fma(alpha, x, beta); });
    case UnaryOp::power:
      if (alpha == A(2)) return with([] __device__(A x) { return x * x; });
      if (alpha == A(3)) return with([] __device__(A x) { return x * x * x; });
      return with([=] __device__(A x) { return pow(x, alpha); });
    case UnaryOp::reciprocal: return with([=] __device__(A x) { return alpha / x; });
    case UnaryOp::exp: return with([] __device__(A x) { return exp(x); });
    case UnaryOp::log: return with([] __device__(A x) { return log(x); });
    case UnaryOp::sqrt: return with([] __device__(A x) { return sqrt(x); });
    case UnaryOp::abs: return with([] __device__(A x) { return fabs(x); });
    case UnaryOp::sign:
      return with(
          [] __device__(A x) { return x > 0 ? A(1) : (x < 0 ? A(-1) : (x == x ? A(0) : x)); });
    case UnaryOp::relu: return with([] __device__(A x) { return x <= 0 ? A(0) : x; });  // keeps NaN
    case UnaryOp::relu6:
      return with([] __device__(A x) { return x <= 0 ? A(0) : (x >= 6 ? A(6) : x); });
    case UnaryOp::sigmoid: return with([] __device__(A x) { return sigmoid(x); });
    case UnaryOp::tanh: return with([] __device__(A x) { return tanh(x); });
    case UnaryOp::gelu: return with([] __device__(A x) { return x * normal_cdf(x); });
  }
}

template <class T>
void run_unary_backward(const Context& context, const kernels::UnaryBackward& call) {
  using A = Accumulator<T>;
  const auto with = [&](auto f) {
    LoopNest<2> nest;
    nest.add(call.dx.numel(), {1, 1});
    zip(context, nest, call.saved.as<T>(), call.dy.as<T>(), call.dx.as<T>(),
        OfFloat<T, decltype(f)>{f});
  };
  switch (call.op) {
    case UnaryOp::relu: return with([] __device__(A y, A dy) { return y <= 0 ? A(0) : dy; });
    case UnaryOp::relu6:
      return with([] __device__(A y, A dy) { return y <= 0 || y >= 6 ? A(0) : dy; });
    case UnaryOp::sigmoid: return with([] __device__(A y, A dy) { return dy * (y * (1 - y)); });
    case UnaryOp::tanh: return with([] __device__(A y, A dy) { return dy * (1 - y * y); });
    case UnaryOp::gelu: return with([] __device__(A x, A dy) { return dy * gelu_slope(x); });
    default: throw Error("[unary_backward] has no " + std::string(to_string(call.op)));
  }
}

}  // namespace

void run(Context& context, const kernels::Unary& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { run_unary<decltype(zero)>(context, call); });
}

void run(Context& context, const kernels::UnaryBackward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.dx.dtype, call.name,
                 [&](auto zero) { run_unary_backward<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
