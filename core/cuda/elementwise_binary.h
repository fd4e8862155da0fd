// What the files of functions of two operands share.
#pragma once

#include <adret/core/cuda/elementwise.h>
#include <adret/core/kernels/elementwise.h>

namespace adret::cuda {

// A kernels::Binary with its loops.
struct BinaryLoops {
  const kernels::Binary& call;
  LoopNest<2> nest;

  // y = f(a, b), with f from T and T to R.
  template <class R, class T, class F>
  void zip(const Context& context, F f) const {
    cuda::zip(context, nest, call.a.as<T>(), call.b.as<T>(), call.y.as<R>(), f);
  }
};

void run_float_arithmetic(const Context& context, const BinaryLoops& loops);
void run_integer_arithmetic(const Context& context, const BinaryLoops& loops);
void run_comparison(const Context& context, const BinaryLoops& loops);

}  // namespace adret::cuda
