// Functions of angles, their inverses and the hyperbolic ones.
#include <adret/core/cuda/elementwise_binary.h>
#include <adret/core/cuda/elementwise_unary.h>

#include <type_traits>

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

// Of 16-bit elements of T, good to 6e-6 of the result: the library's function takes longer than the
// memory.
template <class T>
__device__ float short_angle(float y, float x) {
  const float a = fabsf(y), b = fabsf(x);
  float low = fminf(a, b), high = fmaxf(a, b);
  if constexpr (!std::is_same_v<T, __half>) {
    // The fast division gives 0 by numbers above 2^126, and overflows below 2^-126.
    const float factor = high > 0x1p100f ? 0x1p-32f : (high < 0x1p-80f ? 0x1p64f : 1.f);
    low *= factor;
    high *= factor;
  }
  // Both are 0 or infinite, too.
  const float t = low == high ? (high == 0 ? 0.f : 1.f) : __fdividef(low, high);
  // atan(t) / t in powers of t^2: through Chebyshev's points of 0 to 1.
  const float square = t * t;
  float fit = -0.01313038170337677f;
  for (const float term : {0.05658998340368271f, -0.12044858187437057f, 0.19534659385681152f,
                           -0.33295711874961853f, 0.9999948143959045f}) {
    fit = fmaf(fit, square, term);
  }
  fit *= t;
  if (a > b) fit = 1.57079632679489662f - fit;
  if (__float_as_int(x) < 0) fit = 3.14159265358979324f - fit;
  fit = copysignf(fit, y);
  return x != x || y != y ? x + y : fit;
}

template <class T>
void run_atan2_in(const Context& context, const BinaryLoops& loops) {
  using A = Accumulator<T>;
  if constexpr (sizeof(T) == 2) {
    loops.zip_floats<T>(context, [] __device__(A y, A x) { return short_angle<T>(y, x); });
  } else {
    loops.zip_floats<T>(context, [] __device__(A y, A x) { return angle(y, x); });
  }
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
