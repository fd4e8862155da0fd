// What the files of functions of two operands share.
#pragma once

#include <adret/core/cuda/elementwise.h>
#include <adret/core/kernels/elementwise.h>

namespace adret::cuda {

// f in the type that T is computed in.
template <class T, class F>
struct OfFloats {
  F f;
  __device__ T operator()(T a, T b) const { return narrow<T>(f(widen(a), widen(b))); }
};

// A kernels::Binary with its loops.
struct BinaryLoops {
  const kernels::Binary& call;
  LoopNest<2> nest;

  // y = f(a, b), with f from T and T to R.
  template <class R, class T, class F>
  void zip(const Context& context, F f) const {
    cuda::zip(context, nest, call.a.as<T>(), call.b.as<T>(), call.y.as<R>(), f);
  }
  // The same in floats of T, with f in the type that they are computed in.
  template <class T, class F>
  void zip_floats(const Context& context, F f) const {
    zip<T, T>(context, OfFloats<T, F>{f});
  }
};

void run_float_arithmetic(const Context& context, const BinaryLoops& loops);
void run_float_remainder(const Context& context, const BinaryLoops& loops);
void run_atan2(const Context& context, const BinaryLoops& loops);
void run_integer_arithmetic(const Context& context, const BinaryLoops& loops);
void run_comparison(const Context& context, const BinaryLoops& loops);

}  // namespace adret::cuda
