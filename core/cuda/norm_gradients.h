// Operands of batch normalisation backward, and the arithmetic of its channels.
#pragma once

#include <adret/core/cuda/norm_tile.h>

#include <cstdint>

namespace adret::cuda {

// The operands, null where absent.
template <class T>
struct Gradients {
  using A = Accumulator<T>;
  const T *x, *dy, *dy_added, *y;
  const A *weight, *bias, *mean, *rstd;
  T *dx, *dresidual;
  A *dweight, *dbias;
  Pair* partials;
  A *offset, *slope;  // in the workspace, if there is a second kernel
};

// Where ReLU let something through, if there is one: found from x again, or from y, to which a
// residual was added. `from_x_alone` keeps no dresidual, which is the usual case without a residual
// and takes fewer registers. `from_y_of_sum`: dy has another added to it, and dresidual is kept.
enum class Mask { none, from_x_alone, from_x, from_y, from_y_of_sum };
constexpr bool reads_y(Mask mask) { return mask == Mask::from_y || mask == Mask::from_y_of_sum; }

// The gradient, with what is added to it.
template <Mask mask, class T, int n>
__device__ Vector<T, n> whole_gradient(const Vector<T, n>& dy, const Vector<T, n>& added) {
  if constexpr (mask != Mask::from_y_of_sum) return dy;
  Vector<T, n> sum;
#pragma unroll
  for (int k = 0; k < n; ++k) sum.at[k] = narrow<T>(widen<T>(dy.at[k]) + widen<T>(added.at[k]));
  return sum;
}

template <class T, class Call>
Gradients<T> gradients_of(const Call& call) {
  using A = Accumulator<T>;
  return {.x = call.x.template as<T>(),
          .dy = call.dy.template as<T>(),
          .dy_added = call.dy_added.template as<T>(),
          .y = call.y.template as<T>(),
          .weight = call.weight.template as<A>(),
          .bias = call.bias.template as<A>(),
          .mean = call.mean.template as<A>(),
          .rstd = call.rstd.template as<A>(),
          .dx = call.dx.template as<T>(),
          .dresidual = call.dresidual.template as<T>(),
          .dweight = call.dweight.template as<A>(),
          .dbias = call.dbias.template as<A>()};
}

template <class Call>
Mask mask_of(const Call& call) {
  return call.activation != kernels::Activation::relu ? Mask::none
         : call.dy_added.defined()                    ? Mask::from_y_of_sum
         : call.y.defined()                           ? Mask::from_y
         : call.dresidual.defined()                   ? Mask::from_x
                                                      : Mask::from_x_alone;
}

template <class A, int n>
struct Coefficients {
  A offset[n], slope[n];
};

// The affine map of some channels that leads to y.
template <class A, int n>
struct Affine {
  A mean[n], scale[n], shift[n];

  template <class T>
  __device__ Affine(const Gradients<T>& call, int64_t channel) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const int64_t c = channel + k;
      mean[k] = call.mean[c];
      scale[k] = call.weight ? call.rstd[c] * call.weight[c] : call.rstd[c];
      shift[k] = call.bias ? call.bias[c] : A(0);
    }
  }

  // x, and the gradient behind the activation; y is there if reads_y(mask).
  template <Mask mask, class T>
  __device__ void unmask(const Vector<T, n>& x, const Vector<T, n>& dy, const Vector<T, n>& y,
                         A (&value)[n], A (&g)[n]) const {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      value[k] = widen<T>(x.at[k]);
      g[k] = widen<T>(dy.at[k]);
      if constexpr (mask == Mask::none) continue;
      const A out = reads_y(mask) ? widen<T>(y.at[k]) : (value[k] - mean[k]) * scale[k] + shift[k];
      if (out <= 0) g[k] = 0;
    }
  }

  // dx = scale * (g - mean(g) - normalised x * mean(g * normalised x)) (Ioffe and Szegedy 2015,
  // section 3).
  template <class T>
  __device__ Vector<T, n> input_gradient(const Coefficients<A, n>& coefficients, const A (&x)[n],
                                         const A (&g)[n]) const {
    Vector<T, n> dx;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const A centred = g[k] - coefficients.offset[k];
      dx.at[k] = narrow<T>(scale[k] * ((mean[k] - x[k]) * coefficients.slope[k] + centred));
    }
    return dx;
  }
};

// Of a channel with the sums of g and of g times the centred x: its gradients, the offset and the
// slope of dx.
struct ChannelGradients {
  double bias, weight, offset, slope;

  __device__ ChannelGradients(const Pair& sums, double rstd, int64_t count)
      : bias(sums.a),
        weight(sums.b * rstd),
        offset(bias / double(count)),
        slope(weight / double(count) * rstd) {}
};

}  // namespace adret::cuda
