// Gradients of norms, variances and logarithms of sums of exponentials: a pass over the elements.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/vector_math.h>

namespace adret::cpu {

using kernels::ReduceOp;

namespace {

// The gradients: from what their output knows, and then from each element.
template <class T>
struct Slope {
  T factor, shift;
};
template <class T>
struct NormSlope {
  const T *y, *dy;
  Slope<T> at(int64_t i) const { return {y[i] == 0 ? 0 : dy[i] / y[i], 0}; }
  static T of(Slope<T> slope, T x) { return slope.factor * x; }
};
template <class T>
struct VarSlope {
  const T *mean, *dy;
  T scale;
  Slope<T> at(int64_t i) const { return {dy[i] * scale, mean[i]}; }
  static T of(Slope<T> slope, T x) { return slope.factor * (x - slope.shift); }
};
template <class T>
struct ExpSlope {
  const T *y, *dy;
  Slope<T> at(int64_t i) const { return {dy[i], y[i]}; }
  static T of(Slope<T> slope, T x) { return slope.factor * cpu::exp(x - slope.shift); }
};

template <class F, class T>
void run_with(const F& f, const kernels::ReduceBackward& call) {
  const T* const x = call.x.as<T>();
  T* const dx = call.dx.as<T>();
  const auto nest = broadcast_nest<1>(call.x.shape, {kernels::kept_shape(call.x.shape, call.dims)});
  const int64_t stride = nest.inner_strides()[0];
  nest.parallel_runs(math_grain, [&](int64_t first, const auto& offsets, int64_t n) {
    const T* const from = x + first;
    T* const to = dx + first;
    if (stride == 0) {
      const Slope<T> slope = f.at(offsets[0]);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = F::of(slope, from[i]);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = F::of(f.at(offsets[0] + i), from[i]);
    }
  });
}

}  // namespace

void run(const kernels::ReduceBackward& call) {
  if (call.dx.numel() == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* const dy = call.dy.as<T>();
    switch (call.op) {
      case ReduceOp::norm: return run_with<NormSlope<T>, T>({.y = call.y.as<T>(), .dy = dy}, call);
      case ReduceOp::var: {
        const int64_t count = call.x.numel() / call.dy.numel();
        const double scale = 2 / kernels::var_divisor(count, call.correction);
        return run_with<VarSlope<T>, T>({.mean = call.mean.as<T>(), .dy = dy, .scale = T(scale)},
                                        call);
      }
      case ReduceOp::logsumexp:
        return run_with<ExpSlope<T>, T>({.y = call.y.as<T>(), .dy = dy}, call);
      default: return;
    }
  });
}

}  // namespace adret::cpu
