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
  const T* y;
  const A *weight, *bias, *mean, *rstd;
  T *dx, *dresidual;
  A *dweight, *dbias;
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

// Where ReLU let something through, if there is one: found from x again, or from y, to which a
// residual was added. `from_x_alone` keeps no dresidual, which is the usual case without a residual
// and takes fewer registers.
enum class Mask { none, from_x_alone, from_x, from_y };

// A thread's elements of one row.
template <class T, int n, Mask mask>
struct Row {
  Vector<T, n> x, gradient, y;

  __device__ void load(const Gradients<T>& call, const T* dy, int64_t at) {
    x = cuda::load<T, n>(call.x + at);
    gradient = cuda::load<T, n>(dy + at);
    if constexpr (mask == Mask::from_y) y = cuda::load<T, n>(call.y + at);
  }
  // f(row's offset, x, gradient behind the activation), the latter two as arrays of n.
  template <class F>
  __device__ void give(const Affine<Accumulator<T>, n>& affine, int64_t at, F& f) const {
    using A = Accumulator<T>;
    A value[n], g[n];
#pragma unroll
    for (int k = 0; k < n; ++k) {
      value[k] = widen<T>(x.at[k]);
      g[k] = widen<T>(gradient.at[k]);
      if constexpr (mask == Mask::none) continue;
      const A out = mask == Mask::from_y
                        ? widen<T>(y.at[k])
                        : (value[k] - affine.mean[k]) * affine.scale[k] + affine.shift[k];
      if (out <= 0) g[k] = 0;
    }
    f(at, value, g);
  }
};

// Gives f the rows of the thread from the last to the first: the sums left their end in the cache.
template <Mask mask, class T, int n, class F>
__device__ void for_rows_backwards(const Gradients<T>& call, const Rows& rows,
                                   const Place<n>& place, const Affine<Accumulator<T>, n>& affine,
                                   const T* dy, F f) {
  constexpr int batch = 2;
  if (!place.exists) return;
  const int64_t last = (rows.count - 1) * rows.channels + place.channel;
  for (int64_t row = place.first; row < rows.count; row += batch * place.step) {
    Row<T, n, mask> in[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int64_t r = row + i * place.step;
      if (r < rows.count) in[i].load(call, dy, last - r * rows.channels);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int64_t r = row + i * place.step;
      if (r < rows.count) in[i].give(affine, last - r * rows.channels, f);
    }
  }
}

// Gives f the rows of the thread; the next ones are on their way meanwhile.
template <Mask mask, class T, int n, class F>
__device__ void for_rows_ahead(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                               const Affine<Accumulator<T>, n>& affine, const T* dy, F f) {
  constexpr int batch = mask == Mask::from_y ? 1 : 2;  // as many as the registers hold
  if (!place.exists || place.first >= rows.count) return;
  const int64_t stride = place.step * rows.channels;
  int64_t left = (rows.count - 1 - place.first) / place.step + 1;
  int64_t at = place.first * rows.channels + place.channel;
  Row<T, n, mask> next[batch];
  const auto load_batch = [&] {
#pragma unroll
    for (int i = 0; i < batch; ++i) next[i].load(call, dy, at + i * stride);
  };
  if (left >= batch) load_batch();
  while (left >= batch) {
    Row<T, n, mask> ready[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) ready[i] = next[i];
    const int64_t from = at;
    at += batch * stride;
    left -= batch;
    if (left >= batch) load_batch();
#pragma unroll
    for (int i = 0; i < batch; ++i) ready[i].give(affine, from + i * stride, f);
  }
#pragma unroll 1
  for (; left > 0; --left, at += stride) {
    Row<T, n, mask> one;
    one.load(call, dy, at);
    one.give(affine, at, f);
  }
}

template <class A, int n>
struct Coefficients {
  A offset[n], slope[n];
};

// dx = scale * (g - mean(g) - normalised x * mean(g * normalised x)) (Ioffe and Szegedy 2015,
// section 3).
template <Mask mask, class T, int n>
__device__ void apply(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                      const Affine<Accumulator<T>, n>& affine,
                      const Coefficients<Accumulator<T>, n>& coefficients, const T* dy) {
  using A = Accumulator<T>;
  for_rows_backwards<mask>(
      call, rows, place, affine, dy, [&](int64_t at, const A(&x)[n], const A(&g)[n]) {
        Vector<T, n> dx;
#pragma unroll
        for (int k = 0; k < n; ++k) {
          const A centred = g[k] - coefficients.offset[k];
          dx.at[k] = narrow<T>(affine.scale[k] *
                               ((affine.mean[k] - x[k]) * coefficients.slope[k] + centred));
        }
        store(call.dx + at, dx);
      });
}

template <Mask mask, class T, int n>
__global__ void __launch_bounds__(256) apply_gradient(Gradients<T> call, Rows rows, const T* dy) {
  begin_kernel();
  using A = Accumulator<T>;
  const Place<n> place(rows);
  if (!place.exists) return;
  Coefficients<A, n> own;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    own.offset[k] = call.offset[place.channel + k];
    own.slope[k] = call.slope[place.channel + k];
  }
  apply<mask>(call, rows, place, Affine<A, n>(call, place), own, dy);
}

// Sums of g, and of g times the centred x; keeps g as dresidual, if that is asked for.
template <Mask mask, class T, int n>
__device__ void sum_gradients(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                              const Affine<Accumulator<T>, n>& affine, Pair (&sums)[n]) {
  using A = Accumulator<T>;
  A sum[n] = {}, product[n] = {};
  for_rows_ahead<mask>(call, rows, place, affine, call.dy,
                       [&](int64_t at, const A(&x)[n], const A(&g)[n]) {
#pragma unroll
                         for (int k = 0; k < n; ++k) {
                           sum[k] += g[k];
                           product[k] += g[k] * (x[k] - affine.mean[k]);
                         }
                         if constexpr (mask != Mask::from_x_alone) {
                           if (!call.dresidual) return;
                           Vector<T, n> kept;
#pragma unroll
                           for (int k = 0; k < n; ++k) kept.at[k] = narrow<T>(g[k]);
                           store(call.dresidual + at, kept);
                         }
                       });
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = {double(sum[k]), double(product[k])};
}

template <Mask mask, class T, int n>
__global__ void __launch_bounds__(sum_threads) backward(Gradients<T> call, Rows rows) {
  begin_kernel();
  using A = Accumulator<T>;
  __shared__ A coefficients[2][max_width * n];
  const Place<n> place(rows);
  const Affine<A, n> affine(call, place);
  Pair sums[n], total;
  sum_gradients<mask>(call, rows, place, affine, sums);
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
  if (call.dresidual) {  // the sums masked it
    apply<Mask::none>(call, rows, place, affine, mine, call.dresidual);
  } else {
    apply<mask>(call, rows, place, affine, mine, call.dy);
  }
}

template <Mask mask, class T, int n>
void run_backward(Context& context, Gradients<T> call, const Rows& rows) {
  using A = Accumulator<T>;
  const Grid grid = grid_for_sums<n>(context, rows);
  if (grid.blocks.y == 1) return launch(context, backward<mask, T, n>, grid, call, rows);
  const int64_t pairs = partials_for<n>(grid, rows);
  const Workspace workspace(context,
                            size_t(pairs) * sizeof(Pair) + size_t(rows.channels) * 2 * sizeof(A));
  call.partials = workspace.as<Pair>();
  call.offset = reinterpret_cast<A*>(call.partials + pairs);
  call.slope = call.offset + rows.channels;
  launch(context, backward<mask, T, n>, grid, call, rows);
  if (!call.dx) return;
  const Grid apply = grid_for_rows<n>(context, rows);
  if (call.dresidual) {  // the sums masked it
    const T* const masked = call.dresidual;
    launch(context, apply_gradient<Mask::none, T, n>, apply, call, rows, masked);
  } else {
    launch(context, apply_gradient<mask, T, n>, apply, call, rows, call.dy);
  }
}

template <class T, int n>
void run_masked(Context& context, const Gradients<T>& call, const Rows& rows, Mask mask) {
  switch (mask) {
    case Mask::none: return run_backward<Mask::none, T, n>(context, call, rows);
    case Mask::from_x_alone: return run_backward<Mask::from_x_alone, T, n>(context, call, rows);
    case Mask::from_x: return run_backward<Mask::from_x, T, n>(context, call, rows);
    case Mask::from_y: return run_backward<Mask::from_y, T, n>(context, call, rows);
  }
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
                                 .dbias = call.dbias.as<A>()};
    const Mask mask = call.activation != Activation::relu ? Mask::none
                      : call.y.defined()                  ? Mask::from_y
                      : call.dresidual.defined()          ? Mask::from_x
                                                          : Mask::from_x_alone;
    if (rows.channels % n == 0 &&
        aligned_16(gradients.x, gradients.dy, gradients.y, gradients.dx, gradients.dresidual)) {
      run_masked<T, n>(context, gradients, rows, mask);
    } else {
      run_masked<T, 1>(context, gradients, rows, mask);
    }
  });
}

}  // namespace adret::cuda
