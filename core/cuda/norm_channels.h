// Operands of batch normalisation forward, and the arithmetic of its channels.
#pragma once

#include <adret/core/cuda/norm_tile.h>

#include <cstdint>

namespace adret::cuda {

// y = activation((x - mean) * scale + shift + residual)
template <class T>
struct Output {
  const T *x, *residual;  // residual may be null
  T* y;
  bool relu;
};

template <class T, class Call>
Output<T> output_of(const Call& call) {
  return {call.x.template as<T>(), call.residual.template as<T>(), call.y.template as<T>(),
          call.activation == kernels::Activation::relu};
}

template <class A, int n>
struct Normalisation {
  A mean[n], scale[n], shift[n];

  template <class T>
  __device__ Vector<T, n> apply(const Output<T>& out, const Vector<T, n>& x,
                                const Vector<T, n>& residual) const {
    Vector<T, n> y;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      A value = (widen<T>(x.at[k]) - mean[k]) * scale[k] + shift[k];
      if (out.residual) value += widen<T>(residual.at[k]);
      y.at[k] = narrow<T>(out.relu ? relu(value) : value);
    }
    return y;
  }
};

template <class A>
struct Training {
  const A *weight, *bias;          // may be null
  A *running_mean, *running_var;   // may be null
  int64_t* num_batches;            // may be null
  A *mean, *rstd, *scale, *shift;  // scale and shift in the workspace, if there is a second kernel
  double momentum, epsilon;
  Pair* partials;
};

template <class A, class Call>
Training<A> training_of(const Call& call) {
  return {.weight = call.weight.template as<A>(),
          .bias = call.bias.template as<A>(),
          .running_mean = call.running_mean.template as<A>(),
          .running_var = call.running_var.template as<A>(),
          .num_batches = call.num_batches.template as<int64_t>(),
          .mean = call.mean.template as<A>(),
          .rstd = call.rstd.template as<A>(),
          .momentum = call.momentum,
          .epsilon = call.epsilon};
}

// Of a thread's elements, about its own first ones.
template <class T, int n>
class MomentSums {
  using A = Accumulator<T>;

 public:
  __device__ explicit MomentSums(const Vector<T, n>& first) {
#pragma unroll
    for (int k = 0; k < n; ++k) start_[k] = widen<T>(first.at[k]);
  }
  __device__ void add(const Vector<T, n>& x) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const A deviation = widen<T>(x.at[k]) - start_[k];
      sum_[k] += deviation;
      squares_[k] += deviation * deviation;
    }
  }
  // About `pivot`, for `count` rows: so neither a large mean nor an outlier in the first row costs
  // precision.
  __device__ void move(const Vector<T, n>& pivot, double count, Pair (&sums)[n]) const {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const double moved = double(start_[k]) - double(widen<T>(pivot.at[k]));
      sums[k].a = double(sum_[k]) + count * moved;
      sums[k].b = double(squares_[k]) + moved * (2 * double(sum_[k]) + count * moved);
    }
  }

 private:
  A start_[n], sum_[n] = {}, squares_[n] = {};
};

// Of a channel; `squares` adds up (x - mean)^2.
struct Statistics {
  double mean, squares, rstd;

  Statistics() = default;
  // From the sums of x - pivot and of its square over `count` rows.
  __device__ Statistics(const Pair& sums, double pivot, int64_t count, double epsilon) {
    const double reciprocal = count > 0 ? 1 / double(count) : 0.0;
    const double shifted = sums.a * reciprocal, rest = sums.b - sums.a * shifted;
    mean = pivot + shifted;
    squares = rest < 0 ? 0.0 : rest;  // fmax would hide a NaN
    rstd = 1 / sqrt(squares * reciprocal + epsilon);
  }

  // Scale and shift, in A's precision. What rounding the mean to A lost goes into the shift.
  template <class A>
  __device__ Pair scale_and_shift(double weight, double bias) const {
    const double scale = double(A(rstd * weight));
    return {scale, bias - (mean - double(A(mean))) * scale};
  }
};

// Writes what outlives the call, for channel c.
template <class A>
__device__ void keep(const Statistics& statistics, const Training<A>& call, int64_t count,
                     int64_t c) {
  // Loaded before anything is stored, so that they are waited for together.
  A* const running_mean = count > 0 ? call.running_mean : nullptr;
  A* const running_var = count > 0 ? call.running_var : nullptr;
  const double old_mean = running_mean ? double(running_mean[c]) : 0.0;
  const double old_var = running_var ? double(running_var[c]) : 0.0;
  const auto moved = [&](double old, double value) {
    return A((1 - call.momentum) * old + call.momentum * value);
  };
  call.mean[c] = A(statistics.mean);
  call.rstd[c] = A(statistics.rstd);
  if (c == 0 && call.num_batches) ++*call.num_batches;
  if (running_mean) running_mean[c] = moved(old_mean, statistics.mean);
  const double divisor = count > 1 ? double(count - 1) : 1.0;
  if (running_var) running_var[c] = moved(old_var, statistics.squares / divisor);
}

}  // namespace adret::cuda
