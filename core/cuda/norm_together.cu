// Batch normalisation forward in one launch: Note [Batch normalisation in one launch].
#include <adret/core/cuda/norm_calls.h>
#include <adret/core/cuda/norm_channels.h>
#include <adret/core/cuda/norm_together.h>
#include <adret/core/cuda/workspace.h>

namespace adret::cuda {
namespace {

constexpr int group = 4;  // vectors of a thread that are copied, or loaded, together

// One launch at a time uses them, as all are on one stream.
__device__ GridBarrier barriers[barrier_slices];

template <class T, int n>
__device__ void copy_group(const T* x, const Part<n>& part, const Kept<T, n>& kept, int k) {
#pragma unroll
  for (int i = 0; i < group; ++i) kept.copy(k + i, x + part.at(k + i));
}

// Sums of x - pivot and of its square, the pivot being the first row; fills `kept`.
template <class T, int n>
__device__ void sum_and_keep(const T* x, const Part<n>& part, const Kept<T, n>& kept,
                             Pair (&sums)[n]) {
  const Vector<T, n> pivot = part.exists() ? load<T, n>(x + part.channel) : Vector<T, n>{};
  MomentSums<T, n> own(Vector<T, n>{});
  for_groups<group>(
      kept.count(), [&](int k) { copy_group(x, part, kept, k); },
      [&](int k) {
        if (k == 0) own = MomentSums<T, n>(kept.load(0));
#pragma unroll
        for (int i = 0; i < group; ++i) {
          if (k + i < kept.count()) own.add(kept.load(k + i));
        }
      });
  constexpr int batch = 2 * group;
  Vector<T, n> in[batch];
  in_batches<batch>(
      kept.count(), part.count, [&](int i, int k) { in[i] = load<T, n>(x + part.at(k)); },
      [&](int i, int) { own.add(in[i]); });
#pragma unroll
  for (int k = 0; k < n; ++k) sums[k] = Pair{};
  if (part.exists()) own.move(pivot, double(part.count), sums);
}

template <class T, int n>
__device__ void apply(const Output<T>& out, const Part<n>& part, const Kept<T, n>& x,
                      const Kept<T, n>& residual,
                      const Normalisation<Accumulator<T>, n>& normalisation) {
  Vector<T, n> in[group], added[group];
  // From the last to the first.
  in_batches<group>(
      0, part.count - x.count(),
      [&](int i, int k) {
        const int64_t at = part.at(part.count - 1 - k);
        in[i] = load<T, n>(out.x + at);
        if (out.residual) added[i] = load<T, n>(out.residual + at);
      },
      [&](int i, int k) {
        store(out.y + part.at(part.count - 1 - k), normalisation.apply(out, in[i], added[i]));
      });
  in_batches<group>(
      0, x.count(),
      [&](int i, int k) {
        if (!out.residual) return;
        added[i] = k < residual.count() ? residual.load(k) : load<T, n>(out.residual + part.at(k));
      },
      [&](int i, int k) {
        store(out.y + part.at(k), normalisation.apply(out, x.load(k), added[i]));
      });
}

template <class T, int n>
__global__ void __launch_bounds__(together_threads, 1)
    forward_together(Output<T> out, Rows rows, Training<Accumulator<T>> call, Share share) {
  begin_kernel();
  using A = Accumulator<T>;
  extern __shared__ uint4 memory[];
  __shared__ A coefficients[3][together_width * n];
  if (share.is_cluster) begin_cluster();
  const Part<n> part(rows, share);
  const Kept<T, n> x(memory, share.kept, part.count);
  const Kept<T, n> residual(memory + share.kept, share.more, part.count);
  begin_groups<group>([&](int k) { copy_group(out.x, part, x, k); });
  const int own = int(threadIdx.x), channels = share.width * n;
  const int64_t c = int64_t(blockIdx.y) * channels + own;
  const bool has_channel = own < channels && c < rows.channels;
  double pivot = 0, weight = 1, bias = 0;
  if (has_channel) {
    pivot = double(widen<T>(out.x[c]));
    if (call.weight) weight = double(call.weight[c]);
    if (call.bias) bias = double(call.bias[c]);
  }
  Pair sums[n];
  sum_and_keep(out.x, part, x, sums);
  for (int k = 0; k < residual.count(); ++k) residual.copy(k, out.residual + part.at(k));
  __pipeline_commit();
  Pair* const told =
      share.is_cluster ? reinterpret_cast<Pair*>(memory + share.kept + share.more) : call.partials;
  const Pair total = sum_together<n>(sums, share, told, barriers);
  Statistics statistics;
  if (has_channel) {
    statistics = Statistics(total, pivot, rows.count, call.epsilon);
    const Pair result = statistics.scale_and_shift<A>(weight, bias);
    coefficients[0][own] = A(statistics.mean);
    coefficients[1][own] = A(result.a);
    coefficients[2][own] = A(result.b);
  }
  __syncthreads();
  if (has_channel && blockIdx.x == 0) keep(statistics, call, rows.count, c);
  if (!part.exists()) return;
  Normalisation<A, n> mine;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    mine.mean[k] = coefficients[0][part.in_slice + k];
    mine.scale[k] = coefficients[1][part.in_slice + k];
    mine.shift[k] = coefficients[2][part.in_slice + k];
  }
  __pipeline_wait_prior(0);
  apply(out, part, x, residual, mine);
}

}  // namespace

bool run_in_one_launch(Context& context, const kernels::BatchNormForward& call) {
  const Rows rows = rows_of(call.x);
  if (rows.count == 0 || rows.channels == 0) return false;
  bool done = false;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    constexpr int n = 16 / int(sizeof(T));
    const Output<T> out = output_of<T>(call);
    if (rows.channels % n != 0 || !aligned_16(out.x, out.residual, out.y)) return;
    const auto plan =
        plan_together(context, rows.count, rows.channels, n, 1, out.residual != nullptr);
    if (!plan) return;
    const Workspace workspace(context, size_t(plan->told) * sizeof(Pair));
    Training<A> training = training_of<A>(call);
    training.partials = workspace.as<Pair>();
    launch(context, forward_together<T, n>, *plan, out, rows, training, plan->share);
    done = true;
  });
  return done;
}

}  // namespace adret::cuda
