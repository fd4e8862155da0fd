// Arithmetic of one operand, and who runs the other functions.
#include <adret/core/cuda/elementwise_unary.h>
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {

using kernels::UnaryOp;

namespace {

template <class T>
void run_arithmetic(const Context& context, const kernels::Unary& call) {
  using A = Accumulator<T>;
  const auto with = [&](auto f) { map_floats<map_unroll, T>(context, call, f); };
  const A alpha = A(call.alpha), beta = A(call.beta);
  switch (call.op) {
    case UnaryOp::affine: return with([=] __device__(A x) { return fma(alpha, x, beta); });
    case UnaryOp::power:
      if (alpha == A(2)) return with([] __device__(A x) { return x * x; });
      if (alpha == A(3)) return with([] __device__(A x) { return x * x * x; });
      return with([=] __device__(A x) { return pow(x, alpha); });
    case UnaryOp::reciprocal: return with([=] __device__(A x) { return alpha / x; });
    case UnaryOp::divide: return with([=] __device__(A x) { return x / alpha; });
    case UnaryOp::abs: return with([] __device__(A x) { return fabs(x); });
    case UnaryOp::sign:
      return with(
          [] __device__(A x) { return x > 0 ? A(1) : (x < 0 ? A(-1) : (x == x ? A(0) : x)); });
    case UnaryOp::clamp:  // keeps NaN
      return with([=] __device__(A x) { return x < alpha ? alpha : (x > beta ? beta : x); });
    case UnaryOp::floor: return with([] __device__(A x) { return floor(x); });
    case UnaryOp::ceil: return with([] __device__(A x) { return ceil(x); });
    case UnaryOp::round: return with([] __device__(A x) { return rint(x); });
    case UnaryOp::trunc: return with([] __device__(A x) { return trunc(x); });
    default: throw Error("[unary] has no " + std::string(to_string(call.op)));
  }
}

}  // namespace

void run(Context& context, const kernels::Unary& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  if (is_exponential(call.op)) return run_exponential(context, call);
  if (is_trigonometric(call.op)) return run_trigonometric(context, call);
  if (is_activation(call.op)) return run_activation(context, call);
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { run_arithmetic<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
