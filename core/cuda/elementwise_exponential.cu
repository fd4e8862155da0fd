// Exponentials, logarithms, roots and the error function.
#include <adret/core/cuda/elementwise_unary.h>

namespace adret::cuda {

using kernels::UnaryOp;

namespace {

template <class T>
void run_in(const Context& context, const kernels::Unary& call) {
  using A = Accumulator<T>;
  const auto light = [&](auto f) { map_floats<map_unroll, T>(context, call, f); };
  const auto heavy = [&](auto f) { map_floats<1, T>(context, call, f); };
  switch (call.op) {
    case UnaryOp::exp: return light([] __device__(A x) { return exp(x); });
    case UnaryOp::exp2: return light([] __device__(A x) { return exp2(x); });
    case UnaryOp::expm1: return heavy([] __device__(A x) { return expm1(x); });
    case UnaryOp::log: return light([] __device__(A x) { return log(x); });
    case UnaryOp::log2: return heavy([] __device__(A x) { return log2(x); });
    case UnaryOp::log1p: return heavy([] __device__(A x) { return log1p(x); });
    case UnaryOp::sqrt: return light([] __device__(A x) { return sqrt(x); });
    case UnaryOp::rsqrt: return light([] __device__(A x) { return rsqrt(x); });
    case UnaryOp::erf: return heavy([] __device__(A x) { return erf(x); });
    case UnaryOp::erfc: return heavy([] __device__(A x) { return erfc(x); });
    default: return;  // other families
  }
}

}  // namespace

void run_exponential(const Context& context, const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, call); });
}

}  // namespace adret::cuda
