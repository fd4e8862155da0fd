// Softmax and its logarithm: a line of the tensor belongs to a team, which reads it twice.
#include <adret/core/cuda/exp_sum.h>
#include <adret/core/cuda/implementation.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/lines.h>

namespace adret::cuda {
namespace {

template <class T, int n>
__device__ void store(T* to, const Vector<T, n>& value) {
  *reinterpret_cast<Vector<T, n>*>(to) = value;
}

template <class T>
struct Forward {
  const T* x;
  T* y;
  bool log;

  // n elements at a time, which only lines of stride 1 have.
  template <int n, class Team>
  __device__ void run(int64_t at, Line line, const Team& team) const {
    using A = Accumulator<T>;
    using Values = const Vector<T, n>[1];
    const T* const from[] = {x + at};
    T* const to = y + at;
    ExpSum<A> sums;
    for_vectors<n>(from, line, team, [&](int64_t, Values& in) { sums.add(in[0]); });
    sums = team.reduce(sums);
    const A factor = log ? ::log(sums.sum) : A(1) / sums.sum;
    for_vectors<n>(from, line, team, [&](int64_t place, Values& in) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const A value = widen<T>(in[0].at[k]) - sums.largest;
        out.at[k] = narrow<T>(log ? value - factor : exp_of<T>(value) * factor);
      }
      store(to + place, out);
    });
  }
};

template <class T>
struct Backward {
  const T *y, *dy;
  T* dx;
  bool log;

  template <int n, class Team>
  __device__ void run(int64_t at, Line line, const Team& team) const {
    using A = Accumulator<T>;
    using Values = const Vector<T, n>[2];  // of y and dy
    const T* const from[] = {y + at, dy + at};
    T* const to = dx + at;
    Total<A> total;
    for_vectors<n>(from, line, team, [&](int64_t, Values& in) {
#pragma unroll
      for (int k = 0; k < n; ++k) {
        total.value += widen<T>(in[1].at[k]) * (log ? A(1) : widen<T>(in[0].at[k]));
      }
    });
    const A sum = team.reduce(total).value;
    for_vectors<n>(from, line, team, [&](int64_t place, Values& in) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const A value = widen<T>(in[0].at[k]), gradient = widen<T>(in[1].at[k]);
        out.at[k] = narrow<T>(log ? gradient - exp_of<T>(value) * sum : value * (gradient - sum));
      }
      store(to + place, out);
    });
  }
};

}  // namespace

void run(Context& context, const kernels::SoftmaxForward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    run_lines<T>(context, Forward<T>{call.x.as<T>(), call.y.as<T>(), call.log}, call.x.shape,
                 call.dim, aligned_16(call.x.as<T>(), call.y.as<T>()));
  });
}

void run(Context& context, const kernels::SoftmaxBackward& call) {
  if (runs_on_cudnn(call)) return run_cudnn(context, call);
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    run_lines<T>(context, Backward<T>{call.y.as<T>(), call.dy.as<T>(), call.dx.as<T>(), call.log},
                 call.y.shape, call.dim,
                 aligned_16(call.y.as<T>(), call.dy.as<T>(), call.dx.as<T>()));
  });
}

}  // namespace adret::cuda
