// Functions of angles, their inverses and the hyperbolic ones.
#include <adret/core/cuda/elementwise_binary.h>
#include <adret/core/cuda/elementwise_unary.h>

namespace adret::cuda {

using kernels::UnaryOp;

namespace {

template <class T>
void run_in(const Context& context, const kernels::Unary& call) {
  using A = Accumulator<T>;
  const auto with = [&](auto f) { map_floats<1, T>(context, call, f); };
  switch (call.op) {
    case UnaryOp::sin: return with([] __device__(A x) { return sin(x); });
    case UnaryOp::cos: return with([] __device__(A x) { return cos(x); });
    case UnaryOp::tan: return with([] __device__(A x) { return tan(x); });
    case UnaryOp::asin: return with([] __device__(A x) { return asin(x); });
    case UnaryOp::acos: return with([] __device__(A x) { return acos(x); });
    case UnaryOp::atan: return with([] __device__(A x) { return atan(x); });
    case UnaryOp::sinh: return with([] __device__(A x) { return sinh(x); });
    case UnaryOp::cosh: return with([] __device__(A x) { return cosh(x); });
    default: return;  // other families
  }
}

// Called rather than repeated for each element of a vector.
template <class A>
__device__ __noinline__ A angle(A y, A x) {
  return atan2(y, x);
}

template <class T>
void run_atan2_in(const Context& context, const BinaryLoops& loops) {
  using A = Accumulator<T>;
  loops.zip_floats<T>(context, [] __device__(A y, A x) { return angle(y, x); });
}

}  // namespace

void run_trigonometric(const Context& context, const kernels::Unary& call) {
  dispatch_float(call.x.dtype, call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, call); });
}

void run_atan2(const Context& context, const BinaryLoops& loops) {
  dispatch_float(loops.call.a.dtype, loops.call.name,
                 [&](auto zero) { run_atan2_in<decltype(zero)>(context, loops); });
}

}  // namespace adret::cuda
