// What the files of functions of one operand share.
#pragma once

#include <adret/core/cuda/elementwise.h>
#include <adret/core/kernels/elementwise.h>

namespace adret::cuda {

// f in the type that T is computed in.
template <class T, class F>
struct OfFloat {
  F f;
  __device__ T operator()(T x) const { return narrow<T>(f(widen(x))); }
  __device__ T operator()(T saved, T dy) const { return narrow<T>(f(widen(saved), widen(dy))); }
};

// y = f(x) in floats of T; `unroll` as in map.
template <int unroll, class T, class F>
void map_floats(const Context& context, const kernels::Unary& call, F f) {
  map<unroll>(context, call.x.as<T>(), call.y.as<T>(), call.y.numel(), OfFloat<T, F>{f});
}

// The families of UnaryOp.
void run_exponential(const Context& context, const kernels::Unary& call);
void run_trigonometric(const Context& context, const kernels::Unary& call);
void run_activation(const Context& context, const kernels::Unary& call);

}  // namespace adret::cuda
