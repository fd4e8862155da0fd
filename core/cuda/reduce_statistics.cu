// Norms, variances and logarithms of sums of exponentials, and their gradients.
#include <adret/core/cuda/exp_sum.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/loop_nest.h>
#include <adret/core/cuda/reduce_launch.h>

namespace adret::cuda {

using kernels::ReduceOp;

void run_statistic(Context& context, const kernels::Reduce& call) {
  const int64_t count = call.x.numel() / call.y.numel();
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const auto with = [&]<class Kept>(Kept) {
      reduce<Kept, T>(context, call,
                      {.data = call.y.data,
                       .dtype = call.y.dtype,
                       .divisor = A(kernels::var_divisor(count, call.correction)),
                       .means = call.mean.defined() ? call.mean.as<A>() : nullptr});
    };
    switch (call.op) {
      case ReduceOp::norm: return with(Squares<A>());
      case ReduceOp::var: return with(Moments<A>());
      default: return with(ExpSum<A, true>());
    }
  });
}

namespace {

// The gradients: from what their output knows, and then from each element.
template <class A>
struct Slope {
  A factor, shift;
};
template <class A>
struct NormSlope {
  const A *y, *dy;
  __device__ Slope<A> at(int64_t i) const { return {y[i] == A(0) ? A(0) : dy[i] / y[i], 0}; }
  template <class T>
  __device__ static A of(const Slope<A>& slope, A x) {
    return slope.factor * x;
  }
};
template <class A>
struct VarSlope {
  const A *mean, *dy;
  A scale;
  __device__ Slope<A> at(int64_t i) const { return {dy[i] * scale, mean[i]}; }
  template <class T>
  __device__ static A of(const Slope<A>& slope, A x) {
    return slope.factor * (x - slope.shift);
  }
};
template <class A>
struct ExpSlope {
  const A *y, *dy;
  __device__ Slope<A> at(int64_t i) const { return {dy[i], y[i]}; }
  template <class T>
  __device__ static A of(const Slope<A>& slope, A x) {
    return slope.factor * exp_of<T>(x - slope.shift);
  }
};

// n elements at a time, which have one output (`repeats`) or n neighbouring ones.
template <int n, class T, class F>
__global__ void reduce_gradient(const T* x, T* dx, F f,
                                const __grid_constant__ NestOffsets<1> offsets, int64_t first,
                                bool repeats, uint32_t vectors) {
  begin_kernel();
  const uint32_t step = uint32_t(all_threads());
  for (uint32_t i = uint32_t(first_item()); i < vectors; i += step) {
    const Vector<T, n> in = reinterpret_cast<const Vector<T, n>*>(x)[i];
    const int64_t output = first + offsets(i * n).at[0];
    Vector<T, n> out;
    auto slope = f.at(output);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (k > 0 && !repeats) slope = f.at(output + k);
      out.at[k] = narrow<T>(F::template of<T>(slope, widen(in.at[k])));
    }
    reinterpret_cast<Vector<T, n>*>(dx)[i] = out;
  }
}

template <class T, class F>
void run_with(const Context& context, const kernels::ReduceBackward& call, const F& f) {
  const Shape outputs = kernels::kept_shape(call.x.shape, call.dims);
  broadcast_nest<1>(call.x.shape, {&outputs})
      .for_parts([&](const LoopNest<1>& part, int64_t first, const auto& place) {
        constexpr int n = reduce_vector<T>;
        const T* const x = call.x.as<T>() + first;
        T* const dx = call.dx.as<T>() + first;
        // The outputs are read one by one: their places need no alignment.
        const bool in_vectors = is_aligned(x, n) && is_aligned(dx, n) && part.inner_size() % n == 0;
        const uint32_t vectors = uint32_t(part.total() / (in_vectors ? n : 1));
        launch(context, in_vectors ? reduce_gradient<n, T, F> : reduce_gradient<1, T, F>,
               grid_unrolled(context, vectors, 2), x, dx, f, part.offsets(), place[0],
               part.inner_stride(0) == 0, vectors);
      });
}

}  // namespace

void run(Context& context, const kernels::ReduceBackward& call) {
  if (call.dx.numel() == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const A* const dy = call.dy.as<A>();
    switch (call.op) {
      case ReduceOp::norm:
        return run_with<T>(context, call, NormSlope<A>{.y = call.y.as<A>(), .dy = dy});
      case ReduceOp::var: {
        const int64_t count = call.x.numel() / call.dy.numel();
        const double scale = 2 / kernels::var_divisor(count, call.correction);
        return run_with<T>(context, call,
                           VarSlope<A>{.mean = call.mean.as<A>(), .dy = dy, .scale = A(scale)});
      }
      default: return run_with<T>(context, call, ExpSlope<A>{.y = call.y.as<A>(), .dy = dy});
    }
  });
}

}  // namespace adret::cuda
