// Remainders of floats that broadcast.
#include <adret/core/cuda/elementwise_binary.h>

namespace adret::cuda {
namespace {

// Called rather than repeated for each element of a vector: a long division.
template <class A>
__device__ __noinline__ A rest(A a, A b) {
  return fmod(a, b);
}

// With the divisor's sign.
template <class A>
__device__ A floor_rest(A a, A b) {
  const A value = rest(a, b);
  return value != 0 && (value < 0) != (b < 0) ? value + b : value;
}

template <class T>
void run_in(const Context& context, const BinaryLoops& loops) {
  using A = Accumulator<T>;
  const bool truncates = loops.call.op == kernels::BinaryOp::fmod;
  loops.zip_floats<T>(context, [truncates] __device__(A a, A b) {
    return truncates ? rest(a, b) : floor_rest(a, b);
  });
}

}  // namespace

void run_float_remainder(const Context& context, const BinaryLoops& loops) {
  dispatch_float(loops.call.a.dtype, loops.call.name,
                 [&](auto zero) { run_in<decltype(zero)>(context, loops); });
}

}  // namespace adret::cuda
