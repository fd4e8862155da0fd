// Batch normalisation backward in one launch: Note [Batch normalisation in one launch].
#include <adret/core/cuda/norm_calls.h>
#include <adret/core/cuda/norm_gradients.h>
#include <adret/core/cuda/norm_together.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

constexpr int group = 2;  // vectors of a thread and a tensor that are copied, or loaded, together

// One launch at a time uses them, as all are on one stream.
__device__ GridBarrier barriers[barrier_slices];

// Sums of g, and of g times the centred x.
template <class T, int n>
struct GradientSums {
  using A = Accumulator<T>;
  A sum[n] = {}, product[n] = {};

  // Returns g.
  template <Mask mask>
  __device__ Vector<T, n> add(const Affine<A, n>& affine, const Vector<T, n>& x,
                              const Vector<T, n>& dy, const Vector<T, n>& y) {
    A value[n], g[n];
    affine.template unmask<mask>(x, dy, y, value, g);
    Vector<T, n> unmasked;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      sum[k] += g[k];
      product[k] += g[k] * (value[k] - affine.mean[k]);
      unmasked.at[k] = narrow<T>(g[k]);
    }
    return unmasked;
  }
};

template <class T, int n>
__device__ void copy_group(const Gradients<T>& call, const Part<n>& part, const Kept<T, n>& x,
                           const Kept<T, n>& gradient, int k) {
#pragma unroll
  for (int i = 0; i < group; ++i) {
    x.copy(k + i, call.x + part.at(k + i));
    gradient.copy(k + i, call.dy + part.at(k + i));
  }
}

// Fills `x` and `gradient`, the latter with g; keeps g as dresidual, if that is asked for.
template <Mask mask, class T, int n>
__device__ void sum_and_keep(const Gradients<T>& call, const Part<n>& part, const Kept<T, n>& x,
                             const Kept<T, n>& gradient, const Affine<Accumulator<T>, n>& affine,
                             Pair (&sums)[n]) {
  GradientSums<T, n> own;
  // What is read past the shared memory, as it is not kept.
  Vector<T, n> y[group], next_y[group], added[group], next_added[group];
  const auto load_ahead = [&](int k) {
#pragma unroll
    for (int i = 0; i < group; ++i) {
      if (k + i >= x.count()) continue;
      if constexpr (reads_y(mask)) next_y[i] = load<T, n>(call.y + part.at(k + i));
      if constexpr (mask == Mask::from_y_of_sum) {
        next_added[i] = load<T, n>(call.dy_added + part.at(k + i));
      }
    }
  };
  load_ahead(0);
  for_groups<group>(
      x.count(), [&](int k) { copy_group(call, part, x, gradient, k); },
      [&](int k) {
#pragma unroll
        for (int i = 0; i < group; ++i) {
          y[i] = next_y[i];
          added[i] = next_added[i];
        }
        load_ahead(k + group);
#pragma unroll
        for (int i = 0; i < group; ++i) {
          if (k + i >= x.count()) continue;
          const Vector<T, n> g = own.template add<mask>(
              affine, x.load(k + i), whole_gradient<mask>(gradient.load(k + i), added[i]), y[i]);
          if constexpr (mask != Mask::none) gradient.store(k + i, g);
          if (call.dresidual) store(call.dresidual + part.at(k + i), g);
        }
      });
  constexpr int batch = reads_y(mask) ? group : 2 * group;  // as many as the registers hold
  Vector<T, n> in[batch], dy[batch], more[batch], out[batch];
  in_batches<batch>(
      x.count(), part.count,
      [&](int i, int k) {
        in[i] = load<T, n>(call.x + part.at(k));
        dy[i] = load<T, n>(call.dy + part.at(k));
        if constexpr (mask == Mask::from_y_of_sum) more[i] = load<T, n>(call.dy_added + part.at(k));
        if constexpr (reads_y(mask)) out[i] = load<T, n>(call.y + part.at(k));
      },
      [&](int i, int k) {
        const Vector<T, n> g =
            own.template add<mask>(affine, in[i], whole_gradient<mask>(dy[i], more[i]), out[i]);
        if (call.dresidual) store(call.dresidual + part.at(k), g);
      });
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = {double(own.sum[k]), double(own.product[k])};
}

template <class A, int n>
struct InputGradient {
  Affine<A, n> affine;
  Coefficients<A, n> coefficients;

  template <Mask mask, class T>
  __device__ Vector<T, n> of(const Vector<T, n>& x, const Vector<T, n>& dy,
                             const Vector<T, n>& y) const {
    A value[n], g[n];
    affine.template unmask<mask>(x, dy, y, value, g);
    return affine.template input_gradient<T>(coefficients, value, g);
  }
};

// dx of the vectors that were not kept, from the last to the first.
template <Mask mask, class T, int n>
__device__ void apply_again(const Gradients<T>& call, const T* dy, const Part<n>& part, int kept,
                            const InputGradient<Accumulator<T>, n>& gradient) {
  Vector<T, n> x[group], in[group], y[group];
  in_batches<group>(
      0, part.count - kept,
      [&](int i, int k) {
        const int64_t at = part.at(part.count - 1 - k);
        x[i] = load<T, n>(call.x + at);
        in[i] = load<T, n>(dy + at);
        if constexpr (reads_y(mask)) y[i] = load<T, n>(call.y + at);
      },
      [&](int i, int k) {
        store(call.dx + part.at(part.count - 1 - k),
              gradient.template of<mask, T>(x[i], in[i], y[i]));
      });
}

template <Mask mask, class T, int n>
__global__ void __launch_bounds__(together_threads, 1)
    backward_together(Gradients<T> call, Rows rows, Share share) {
  begin_kernel();
  using A = Accumulator<T>;
  extern __shared__ uint4 memory[];
  __shared__ A coefficients[2][together_width * n];
  if (share.is_cluster) begin_cluster();
  const Part<n> part(rows, share);
  const Kept<T, n> x(memory, share.kept, part.count);
  const Kept<T, n> g(memory + share.kept, share.kept, part.count);
  begin_groups<group>([&](int k) { copy_group(call, part, x, g, k); });
  const int own = int(threadIdx.x), channels = share.width * n;
  const int64_t c = int64_t(blockIdx.y) * channels + own;
  const bool has_channel = own < channels && c < rows.channels;
  const double rstd = has_channel ? double(call.rstd[c]) : 0.0;
  InputGradient<A, n> gradient{.affine = {call, part.exists() ? part.channel : 0}};
  Pair sums[n];
  sum_and_keep<mask>(call, part, x, g, gradient.affine, sums);
  Pair* const told =
      share.is_cluster ? reinterpret_cast<Pair*>(memory + 2 * share.kept) : call.partials;
  const Pair total = sum_together<n>(sums, share, told, barriers);
  if (has_channel) {
    const ChannelGradients gradients(total, rstd, rows.count);
    coefficients[0][own] = A(gradients.offset);
    coefficients[1][own] = A(gradients.slope);
    if (blockIdx.x == 0 && call.dbias) call.dbias[c] = A(gradients.bias);
    if (blockIdx.x == 0 && call.dweight) call.dweight[c] = A(gradients.weight);
  }
  __syncthreads();
  if (!part.exists()) return;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    gradient.coefficients.offset[k] = coefficients[0][part.in_slice + k];
    gradient.coefficients.slope[k] = coefficients[1][part.in_slice + k];
  }
  if (call.dresidual) {  // the sums unmasked it
    apply_again<Mask::none, T>(call, call.dresidual, part, x.count(), gradient);
  } else if constexpr (mask != Mask::from_y_of_sum) {
    apply_again<mask, T>(call, call.dy, part, x.count(), gradient);
  }
#pragma unroll 2
  for (int k = 0; k < x.count(); ++k) {
    store(call.dx + part.at(k), gradient.template of<Mask::none, T>(x.load(k), g.load(k), {}));
  }
}

template <Mask mask, class T, int n>
void run_masked(Context& context, Gradients<T> call, const Rows& rows, const TogetherPlan& plan) {
  const Workspace workspace(context, size_t(plan.told) * sizeof(Pair));
  call.partials = workspace.as<Pair>();
  launch(context, backward_together<mask, T, n>, plan, call, rows, plan.share);
}

}  // namespace

bool run_in_one_launch(Context& context, const kernels::BatchNormBackward& call) {
  const Rows rows = rows_of(call.x);
  if (rows.count == 0 || rows.channels == 0 || !call.dx.defined()) return false;
  bool done = false;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = 16 / int(sizeof(T));
    const Gradients<T> gradients = gradients_of<T>(call);
    if (rows.channels % n != 0 || !aligned_16(gradients.x, gradients.dy, gradients.dy_added,
                                              gradients.y, gradients.dx, gradients.dresidual)) {
      return;
    }
    const auto plan = plan_together(context, rows.count, rows.channels, n, 2, false);
    if (!plan) return;
    switch (mask_of(call)) {
      case Mask::none: run_masked<Mask::none, T, n>(context, gradients, rows, *plan); break;
      case Mask::from_x_alone:
      case Mask::from_x: run_masked<Mask::from_x, T, n>(context, gradients, rows, *plan); break;
      case Mask::from_y: run_masked<Mask::from_y, T, n>(context, gradients, rows, *plan); break;
      case Mask::from_y_of_sum:
        run_masked<Mask::from_y_of_sum, T, n>(context, gradients, rows, *plan);
        break;
    }
    done = true;
  });
  return done;
}

}  // namespace adret::cuda
