// Batch normalisation backward: Note [Batch normalisation on CUDA].
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/norm_tile.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {

using kernels::Activation;

namespace {

// Zero between launches; one launch at a time uses them, as all are on one stream.
__device__ unsigned blocks_done[max_shared_slices];

// The operands, null where absent.
template <class T>
struct Gradients {
  using A = Accumulator<T>;
  const T *x, *dy;
  const T* y;  // for relu
  const A *weight, *bias, *mean, *rstd;
  T *dx, *dresidual;
  A *dweight, *dbias;
  bool relu;
  Pair* partials;
  A *offset, *slope;  // in the workspace, if there is a second kernel
};

// The channels of a thread: the affine map that leads to y.
template <class A, int n>
struct Affine {
  A mean[n], scale[n], shift[n];

  template <class T>
  __device__ Affine(const Gradients<T>& call, const Place<n>& place) {
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const int64_t c = place.exists ? place.channel + k : 0;
      mean[k] = call.mean[c];
      scale[k] = call.weight ? call.rstd[c] * call.weight[c] : call.rstd[c];
      shift[k] = call.bias ? call.bias[c] : A(0);
    }
  }
};

// f(row's offset, x, gradient behind the activation), the latter two as arrays of n, for the rows
// of the thread. The gradient is dy where y > 0, with relu.
template <class T, int n, class F>
__device__ void for_rows(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                         const Affine<Accumulator<T>, n>& affine, const T* dy, bool mask,
                         bool from_end, F f) {
  using A = Accumulator<T>;
  constexpr int batch = 2;
  if (!place.exists) return;
  const T* y = mask ? call.y : nullptr;
  const int64_t last = rows.count - 1;
  for (int64_t row = place.first; row < rows.count; row += batch * place.step) {
    Vector<T, n> x[batch], gradient[batch], result[batch];
    int64_t at[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int64_t r = row + i * place.step;
      if (r >= rows.count) continue;
      at[i] = (from_end ? last - r : r) * rows.channels + place.channel;
      x[i] = load<T, n>(call.x + at[i]);
      gradient[i] = load<T, n>(dy + at[i]);
      if (y) result[i] = load<T, n>(y + at[i]);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      if (row + i * place.step >= rows.count) continue;
      A value[n], g[n];
#pragma unroll
      for (int k = 0; k < n; ++k) {
        value[k] = widen<T>(x[i].at[k]);
        g[k] = widen<T>(gradient[i].at[k]);
        if (!mask) continue;
        const A out = y ? widen<T>(result[i].at[k])
                        : (value[k] - affine.mean[k]) * affine.scale[k] + affine.shift[k];
        if (out <= 0) g[k] = 0;
      }
      f(at[i], value, g);
    }
  }
}

template <class A, int n>
struct Coefficients {
  A offset[n], slope[n];
};

// dx = scale * (g - mean(g) - normalised x * mean(g * normalised x)) (Ioffe and Szegedy 2015,
// section 3), the rows from the last to the first: the sums left their end in the cache.
template <class T, int n>
__device__ void apply(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                      const Affine<Accumulator<T>, n>& affine,
                      const Coefficients<Accumulator<T>, n>& coefficients) {
  using A = Accumulator<T>;
  const T* masked = call.dresidual;  // by the sums
  for_rows<T, n>(call, rows, place, affine, masked ? masked : call.dy, call.relu && !masked, true,
                 [&](int64_t at, const A(&x)[n], const A(&g)[n]) {
                   Vector<T, n> dx;
#pragma unroll
                   for (int k = 0; k < n; ++k) {
                     const A centred = g[k] - coefficients.offset[k];
                     dx.at[k] =
                         narrow<T>(affine.scale[k] *
                                   ((affine.mean[k] - x[k]) * coefficients.slope[k] + centred));
                   }
                   store(call.dx + at, dx);
                 });
}

template <class T, int n>
__global__ void __launch_bounds__(256) apply_gradient(Gradients<T> call, Rows rows) {
  using A = Accumulator<T>;
  const Place<n> place(rows);
  if (!place.exists) return;
  Coefficients<A, n> own;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    own.offset[k] = call.offset[place.channel + k];
    own.slope[k] = call.slope[place.channel + k];
  }
  apply<T, n>(call, rows, place, Affine<A, n>(call, place), own);
}

// Sums of g, and of g times the centred x; keeps g as dresidual, if that is asked for.
template <class T, int n>
__device__ void sum_gradients(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                              const Affine<Accumulator<T>, n>& affine, Pair (&sums)[n]) {
  using A = Accumulator<T>;
  A sum[n] = {}, product[n] = {};
  for_rows<T, n>(call, rows, place, affine, call.dy, call.relu, false,
                 [&](int64_t at, const A(&x)[n], const A(&g)[n]) {
                   Vector<T, n> kept;
#pragma unroll
                   for (int k = 0; k < n; ++k) {
                     sum[k] += g[k];
                     product[k] += g[k] * (x[k] - affine.mean[k]);
                     kept.at[k] = narrow<T>(g[k]);
                   }
                   if (call.dresidual) store(call.dresidual + at, kept);
                 });
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = {double(sum[k]), double(product[k])};
}

template <class T, int n>
__global__ void __launch_bounds__(sum_threads) backward(Gradients<T> call, Rows rows) {
  using A = Accumulator<T>;
  __shared__ A coefficients[2][max_width * n];
  const Place<n> place(rows);
  const Affine<A, n> affine(call, place);
  Pair sums[n], total;
  sum_gradients<T, n>(call, rows, place, affine, sums);
  if (!sum_slice<n>(sums, place, call.partials, blocks_done, total)) return;
  const int own = int(threadIdx.x);
  const int64_t c = int64_t(blockIdx.x) * place.width * n + own;
  if (own < place.width * n && c < rows.channels) {
    const double rstd = double(call.rstd[c]), product = total.b * rstd;
    if (call.dbias) call.dbias[c] = A(total.a);
    if (call.dweight) call.dweight[c] = A(product);
    const A offset = A(total.a / double(rows.count));
    const A slope = A(product / double(rows.count) * rstd);
    if (gridDim.y == 1) {
      coefficients[0][own] = offset;
      coefficients[1][own] = slope;
    } else if (call.dx) {
      call.offset[c] = offset;
      call.slope[c] = slope;
    }
  }
  if (gridDim.y > 1 || !call.dx) return;
  __syncthreads();
  Coefficients<A, n> mine;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    mine.offset[k] = coefficients[0][place.in_slice + k];
    mine.slope[k] = coefficients[1][place.in_slice + k];
  }
  apply<T, n>(call, rows, place, affine, mine);
}

template <class T, int n>
void run_backward(Context& context, Gradients<T> call, const Rows& rows) {
  using A = Accumulator<T>;
  const Grid grid = grid_for_sums<n>(context, rows);
  if (grid.blocks.y == 1) return launch(context, backward<T, n>, grid, call, rows);
  const int64_t pairs = partials_for<n>(grid, rows);
  const Workspace workspace(context,
                            size_t(pairs) * sizeof(Pair) + size_t(rows.channels) * 2 * sizeof(A));
  call.partials = workspace.as<Pair>();
  call.offset = reinterpret_cast<A*>(call.partials + pairs);
  call.slope = call.offset + rows.channels;
  launch(context, backward<T, n>, grid, call, rows);
  if (call.dx) launch(context, apply_gradient<T, n>, grid_for_rows<n>(context, rows), call, rows);
}

}  // namespace

void run(Context& context, const kernels::BatchNormBackward& call) {
  const Rows rows = rows_of(call.x);
  if (rows.channels == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    constexpr int n = 16 / int(sizeof(T));
    const Gradients<T> gradients{.x = call.x.as<T>(),
                                 .dy = call.dy.as<T>(),
                                 .y = call.y.as<T>(),
                                 .weight = call.weight.as<A>(),
                                 .bias = call.bias.as<A>(),
                                 .mean = call.mean.as<A>(),
                                 .rstd = call.rstd.as<A>(),
                                 .dx = call.dx.as<T>(),
                                 .dresidual = call.dresidual.as<T>(),
                                 .dweight = call.dweight.as<A>(),
                                 .dbias = call.dbias.as<A>(),
                                 .relu = call.activation == Activation::relu};
    if (rows.channels % n == 0 &&
        aligned_16(gradients.x, gradients.dy, gradients.y, gradients.dx, gradients.dresidual)) {
      run_backward<T, n>(context, gradients, rows);
    } else {
      run_backward<T, 1>(context, gradients, rows);
    }
  });
}

}  // namespace adret::cuda
