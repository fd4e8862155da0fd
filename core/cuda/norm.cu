// Batch normalisation forward, in training and with given statistics: Note [Batch normalisation on
// CUDA].
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/norm_calls.h>
#include <adret/core/cuda/norm_channels.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {

namespace {

// Zero between launches; one launch at a time uses them, as all are on one stream.
__device__ unsigned blocks_done[max_shared_slices];

// -- applying ------------------------------------------------------------------------------------

// The rows are taken from the last to the first: a pass before this one left its end in the cache.
template <int batch, class T, int n>
__device__ void apply_batches(const Output<T>& out, const Rows& rows, const Place<n>& place,
                              const Normalisation<Accumulator<T>, n>& normalisation) {
  const int64_t last = (rows.count - 1) * rows.channels + place.channel;
  for (int64_t row = place.first; row < rows.count; row += batch * place.step) {
    Vector<T, n> x[batch], residual[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int64_t from_end = row + i * place.step;
      if (from_end >= rows.count) continue;
      const int64_t at = last - from_end * rows.channels;
      x[i] = load<T, n>(out.x + at);
      if (out.residual) residual[i] = load<T, n>(out.residual + at);
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int64_t from_end = row + i * place.step;
      if (from_end >= rows.count) continue;
      store(out.y + (last - from_end * rows.channels), normalisation.apply(out, x[i], residual[i]));
    }
  }
}

// As many rows at a time as the registers hold.
template <class T, int n>
__device__ void apply(const Output<T>& out, const Rows& rows, const Place<n>& place,
                      const Normalisation<Accumulator<T>, n>& normalisation) {
  if (!place.exists) return;
  if (out.residual) {
    apply_batches<2>(out, rows, place, normalisation);
  } else {
    apply_batches<4>(out, rows, place, normalisation);
  }
}

// Of channels, to be turned into coefficients: in training scale and shift themselves, else weight,
// bias and the variance that stands for the scale. Absent ones are null.
template <class A>
struct Channels {
  const A *mean, *scale, *shift;
  const A *var, *weight, *bias;
  A epsilon;
};

template <class T, int n>
__global__ void __launch_bounds__(256, 3)
    apply_channels(Output<T> out, Rows rows, Channels<Accumulator<T>> channels) {
  begin_kernel();
  using A = Accumulator<T>;
  const Place<n> place(rows);
  if (!place.exists) return;
  Normalisation<A, n> own;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    const int64_t c = place.channel + k;
    own.mean[k] = channels.mean[c];
    if (channels.var) {
      own.scale[k] = A(1) / sqrt(channels.var[c] + channels.epsilon);
      if (channels.weight) own.scale[k] *= channels.weight[c];
      own.shift[k] = channels.bias ? channels.bias[c] : A(0);
    } else {
      own.scale[k] = channels.scale[c];
      own.shift[k] = channels.shift[c];
    }
  }
  apply<T, n>(out, rows, place, own);
}

// -- statistics ----------------------------------------------------------------------------------

// Sums of x - pivot and of its square, the pivot being the first row.
template <class T, int n>
__device__ void sum_moments(const T* x, const Rows& rows, const Place<n>& place, Pair (&sums)[n]) {
  constexpr int batch = 6;
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = Pair{};
  if (!place.exists || place.first >= rows.count) return;
  x += place.channel;
  MomentSums<T, n> own(load<T, n>(x + place.first * rows.channels));
  // Where a row was, the one that comes `batch` rows later is on its way.
  const int64_t stride = place.step * rows.channels;
  const T* from = x + place.first * rows.channels;
  int64_t left = (rows.count - 1 - place.first) / place.step + 1;
  if (left >= batch) {
    Vector<T, n> in[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i, from += stride) in[i] = load<T, n>(from);
    for (left -= batch; left >= batch; left -= batch) {
#pragma unroll
      for (int i = 0; i < batch; ++i, from += stride) {
        own.add(in[i]);
        in[i] = load<T, n>(from);
      }
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) own.add(in[i]);
  }
#pragma unroll 1
  for (; left > 0; --left, from += stride) own.add(load<T, n>(from));
  const double count = double((rows.count - 1 - place.first) / place.step + 1);
  own.move(load<T, n>(x), count, sums);
}

template <class T, int n>
__global__ void __launch_bounds__(sum_threads)
    forward(Output<T> out, Rows rows, Training<Accumulator<T>> call) {
  begin_kernel();
  using A = Accumulator<T>;
  __shared__ A coefficients[3][max_width * n];
  const Place<n> place(rows);
  const int own = int(threadIdx.x);
  const int64_t c = int64_t(blockIdx.x) * place.width * n + own;
  const bool has_channel = own < place.width * n && c < rows.channels;
  // Loaded now: the whole device waits for the last block.
  const double pivot = has_channel && rows.count > 0 ? double(widen<T>(out.x[c])) : 0.0;
  const double weight = has_channel && call.weight ? double(call.weight[c]) : 1.0;
  const double bias = has_channel && call.bias ? double(call.bias[c]) : 0.0;
  Pair sums[n], total;
  sum_moments<T, n>(out.x, rows, place, sums);
  if (!sum_slice<n>(sums, place, call.partials, blocks_done, total)) return;
  if (has_channel) {
    const Statistics statistics(total, pivot, rows.count, call.epsilon);
    keep(statistics, call, rows.count, c);
    const Pair result = statistics.scale_and_shift<A>(weight, bias);
    if (gridDim.y > 1) {
      call.scale[c] = A(result.a);
      call.shift[c] = A(result.b);
    } else {
      coefficients[0][own] = call.mean[c];
      coefficients[1][own] = A(result.a);
      coefficients[2][own] = A(result.b);
    }
  }
  if (gridDim.y > 1) return;
  __syncthreads();
  Normalisation<A, n> mine;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    mine.mean[k] = coefficients[0][place.in_slice + k];
    mine.scale[k] = coefficients[1][place.in_slice + k];
    mine.shift[k] = coefficients[2][place.in_slice + k];
  }
  apply<T, n>(out, rows, place, mine);
}

// -- calls ---------------------------------------------------------------------------------------

// f.operator()<n>(): with vectors where channels and pointers allow, else by element.
template <class T, class F>
void with_vectors(const Output<T>& out, const Rows& rows, F f) {
  constexpr int n = 16 / int(sizeof(T));
  if (rows.channels % n == 0 && aligned_16(out.x, out.residual, out.y)) {
    f.template operator()<n>();
  } else {
    f.template operator()<1>();
  }
}

template <class T, int n>
void train(Context& context, const kernels::BatchNormForward& call, const Output<T>& out,
           const Rows& rows) {
  using A = Accumulator<T>;
  const Grid grid = grid_for_sums<n>(context, rows);
  Training<A> training = training_of<A>(call);
  if (grid.blocks.y == 1) return launch(context, forward<T, n>, grid, out, rows, training);
  const int64_t pairs = partials_for<n>(grid, rows);
  const Workspace workspace(context,
                            size_t(pairs) * sizeof(Pair) + size_t(rows.channels) * 2 * sizeof(A));
  training.partials = workspace.as<Pair>();
  training.scale = reinterpret_cast<A*>(training.partials + pairs);
  training.shift = training.scale + rows.channels;
  launch(context, forward<T, n>, grid, out, rows, training);
  launch(context, apply_channels<T, n>, grid_for_rows<n>(context, rows), out, rows,
         Channels<A>{.mean = training.mean, .scale = training.scale, .shift = training.shift});
}

}  // namespace

void run(Context& context, const kernels::BatchNormForward& call) {
  if (one_launch_pays(context, call) && run_in_one_launch(context, call)) return;
  run_in_two_launches(context, call);
}

void run_in_two_launches(Context& context, const kernels::BatchNormForward& call) {
  const Rows rows = rows_of(call.x);
  if (rows.channels == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const Output<T> out = output_of<T>(call);
    with_vectors(out, rows, [&]<int n>() { train<T, n>(context, call, out, rows); });
  });
}

void run(Context& context, const kernels::BatchNormInference& call) {
  const Rows rows = rows_of(call.x);
  if (rows.count == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Output<T> out = output_of<T>(call);
    const Channels<A> channels{.mean = call.mean.as<A>(),
                               .var = call.var.as<A>(),
                               .weight = call.weight.as<A>(),
                               .bias = call.bias.as<A>(),
                               .epsilon = A(call.epsilon)};
    with_vectors(out, rows, [&]<int n>() {
      launch(context, apply_channels<T, n>, grid_for_rows<n>(context, rows), out, rows, channels);
    });
  });
}

}  // namespace adret::cuda
