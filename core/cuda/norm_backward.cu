// Batch normalisation backward: Note [Batch normalisation on CUDA].
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/norm_calls.h>
#include <adret/core/cuda/norm_gradients.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {

namespace {

// Zero between launches; one launch at a time uses them, as all are on one stream.
__device__ unsigned blocks_done[max_shared_slices];

// A thread's elements of one row.
template <class T, int n, Mask mask>
struct Row {
  Vector<T, n> x, gradient, added, y;

  __device__ void load(const Gradients<T>& call, const T* dy, int64_t at) {
    x = cuda::load<T, n>(call.x + at);
    gradient = cuda::load<T, n>(dy + at);
    if constexpr (mask == Mask::from_y_of_sum) added = cuda::load<T, n>(call.dy_added + at);
    if constexpr (reads_y(mask)) y = cuda::load<T, n>(call.y + at);
  }
  // f(row's offset, x, gradient behind the activation), the latter two as arrays of n.
  template <class F>
  __device__ void give(const Affine<Accumulator<T>, n>& affine, int64_t at, F& f) const {
    using A = Accumulator<T>;
    A value[n], g[n];
    affine.template unmask<mask>(x, whole_gradient<mask>(gradient, added), y, value, g);
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

// Gives f the rows of the thread; where a row was, the one `batch` rows later is on its way.
template <Mask mask, class T, int n, class F>
__device__ void for_rows_ahead(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                               const Affine<Accumulator<T>, n>& affine, const T* dy, F f) {
  // As many as the registers hold.
  constexpr int batch = mask == Mask::from_y_of_sum ? 1 : mask == Mask::none ? 3 : 2;
  if (!place.exists || place.first >= rows.count) return;
  const int64_t stride = place.step * rows.channels;
  int64_t left = (rows.count - 1 - place.first) / place.step + 1;
  int64_t at = place.first * rows.channels + place.channel;
  if (left >= batch) {
    const int64_t ahead = batch * stride;
    Row<T, n, mask> in[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) in[i].load(call, dy, at + i * stride);
    for (left -= batch; left >= batch; left -= batch) {
#pragma unroll
      for (int i = 0; i < batch; ++i, at += stride) {
        in[i].give(affine, at, f);
        in[i].load(call, dy, at + ahead);
      }
    }
#pragma unroll
    for (int i = 0; i < batch; ++i, at += stride) in[i].give(affine, at, f);
  }
#pragma unroll 1
  for (; left > 0; --left, at += stride) {
    Row<T, n, mask> one;
    one.load(call, dy, at);
    one.give(affine, at, f);
  }
}

template <Mask mask, class T, int n>
__device__ void apply(const Gradients<T>& call, const Rows& rows, const Place<n>& place,
                      const Affine<Accumulator<T>, n>& affine,
                      const Coefficients<Accumulator<T>, n>& coefficients, const T* dy) {
  using A = Accumulator<T>;
  for_rows_backwards<mask>(
      call, rows, place, affine, dy, [&](int64_t at, const A(&x)[n], const A(&g)[n]) {
        store(call.dx + at, affine.template input_gradient<T>(coefficients, x, g));
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
  apply<mask>(call, rows, place, Affine<A, n>(call, place.channel), own, dy);
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
  const Affine<A, n> affine(call, place.exists ? place.channel : 0);
  const int own = int(threadIdx.x);
  const int64_t c = int64_t(blockIdx.x) * place.width * n + own;
  const bool has_channel = own < place.width * n && c < rows.channels;
  const double rstd = has_channel ? double(call.rstd[c]) : 0.0;
  Pair sums[n], total;
  sum_gradients<mask>(call, rows, place, affine, sums);
  if (!sum_slice<n>(sums, place, call.partials, blocks_done, total)) return;
  if (has_channel) {
    const ChannelGradients gradients(total, rstd, rows.count);
    if (call.dbias) call.dbias[c] = A(gradients.bias);
    if (call.dweight) call.dweight[c] = A(gradients.weight);
    if (gridDim.y == 1) {
      coefficients[0][own] = A(gradients.offset);
      coefficients[1][own] = A(gradients.slope);
    } else if (call.dx) {
      call.offset[c] = A(gradients.offset);
      call.slope[c] = A(gradients.slope);
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
  } else if constexpr (mask != Mask::from_y_of_sum) {
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
  } else if constexpr (mask != Mask::from_y_of_sum) {
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
    case Mask::from_y_of_sum: return run_backward<Mask::from_y_of_sum, T, n>(context, call, rows);
  }
}

}  // namespace

void run(Context& context, const kernels::BatchNormBackward& call) {
  if (one_launch_pays(context, call) && run_in_one_launch(context, call)) return;
  run_in_two_launches(context, call);
}

void run_in_two_launches(Context& context, const kernels::BatchNormBackward& call) {
  const Rows rows = rows_of(call.x);
  if (rows.channels == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = 16 / int(sizeof(T));
    const Gradients<T> gradients = gradients_of<T>(call);
    const Mask mask = mask_of(call);
    if (rows.channels % n == 0 && aligned_16(gradients.x, gradients.dy, gradients.dy_added,
                                             gradients.y, gradients.dx, gradients.dresidual)) {
      run_masked<T, n>(context, gradients, rows, mask);
    } else {
      run_masked<T, 1>(context, gradients, rows, mask);
    }
  });
}

}  // namespace adret::cuda
