// Cross-entropy: a team of threads, or one for log-probabilities, takes a sample, and the block
// that is done last adds up.
#include <adret/core/cuda/exp_sum.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/loss_rows.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

namespace adret::cuda {

using kernels::Reduction;

namespace {

constexpr int64_t register_classes = 1024;  // a warp holds a row of so many; else a block takes it
// With more, the gradient's divisor costs the blocks more to count than a launch of its own.
constexpr int64_t most_counted = 1 << 16;

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

struct LossSum {
  double loss = 0, counted = 0;
  __device__ void merge(const LossSum& other) {
    loss += other.loss;
    counted += other.counted;
  }
};

template <class T, bool weighted>
struct Forward {
  using A = Accumulator<T>;
  const T* logits;
  Labels labels;
  A *loss, *log_sum_exp, *counted;  // log_sum_exp is null for log-probabilities
  LossSum* partials;                // a block each; unused for one block
  ClassWeights<A, weighted> weights;
  Reduction reduction;
  const A* dloss;
  T* dlogits;  // null: no gradient

  // What is known of a row when its exponentials, exp(x - pivot), are summed: `at_label` and the
  // weighted mean are those of x - pivot, so that a large logit costs no precision. `at_label` is
  // NaN for a label out of range, whose weight is 1.
  struct Row {
    int64_t sample;
    bool counts;
    A weight, pivot, exps, at_label, mean;
  };
  __device__ void write(const Row& row, A mean_weight, LossSum& sum) const {
    const A log_sum = ::log(row.exps), smoothing = weights.smoothing;
    A value = 0;
    if (row.counts) {
      value = (1 - smoothing) * row.weight * (log_sum - row.at_label);
      if (smoothing > 0) value += smoothing * (mean_weight * log_sum - row.mean);
    }
    if (log_sum_exp) log_sum_exp[row.sample] = row.pivot + log_sum;
    if (reduction == Reduction::none) loss[row.sample] = value;
    sum.loss += double(value);
    if (row.counts) sum.counted += double(row.weight);
  }

  // What the threads of a block have summed, and then the blocks.
  __device__ void finish(LossSum sum) const {
    sum = Block().reduce(sum);
    if (gridDim.x > 1) {
      if (threadIdx.x == 0) partials[blockIdx.x] = sum;
      if (!is_last_block(&blocks_done, gridDim.x)) return;
      sum = LossSum();
      for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum.merge(partials[i]);
      sum = Block().reduce(sum);
    }
    if (threadIdx.x != 0) return;
    *counted = A(sum.counted);
    if (reduction == Reduction::none) return;
    const bool is_mean = reduction == Reduction::mean;
    *loss = A(is_mean && sum.counted != 0 ? sum.loss / sum.counted : sum.loss);
  }
};

// -- rows in registers ---------------------------------------------------------------------------

template <class A>
struct Largest {
  A value = -INFINITY;
  __device__ void merge(const Largest& other) { value = fmax(value, other.value); }
};

template <class A>
struct RowTotals {
  A exps = 0, shifted = 0, at_label = 0;
  __device__ void merge(const RowTotals& other) {
    exps += other.exps;
    shifted += other.shifted;
    at_label += other.at_label;
  }
};

// What the mean is divided by: the samples that count, or their weights. The same for every thread
// of the block.
template <class T, bool weighted>
__device__ Accumulator<T> count_samples(const Forward<T, weighted>& f, Samples samples) {
  Total<Accumulator<T>> counted;
  for (int64_t i = threadIdx.x; i < samples.count; i += blockDim.x) {
    const int64_t label = f.labels[i];
    if (label == f.labels.ignore_index) continue;
    counted.value += f.weights.of_label(label, samples.classes);
  }
  counted = Block().reduce(counted);
  return counted.value != 0 ? counted.value : Accumulator<T>(1);
}

// `lanes` threads hold a row, `held` logits each, and write its loss and, if wanted, its gradient
// before they forget it.
template <int held, class T, bool weighted>
__global__ void __launch_bounds__(held == 1 ? 1024 : 256)
    rows_in_registers(Forward<T, weighted> f, Samples samples, int lanes) {
  begin_kernel();
  using A = Accumulator<T>;
  const bool divides = f.dlogits && f.reduction == Reduction::mean;
  const A divisor = divides ? count_samples(f, samples) : A(1);
  const A mean_weight = f.weights.mean(samples.classes);
  const Lanes team(lanes);
  LossSum sum;
  for_samples_by_lanes(samples.count, lanes, [&](int64_t sample) {
    const int64_t own = sample < 0 ? 0 : sample;
    const int width = sample < 0 ? 0 : int(samples.classes);
    const int64_t label = f.labels[own];
    const T* const row = f.logits + own * samples.classes;
    A x[held];
    Largest<A> largest;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int c = team.rank() + k * lanes;
      x[k] = c < width ? widen<T>(row[c]) : A(-INFINITY);
      largest.value = fmax(largest.value, x[k]);
    }
    largest = team.reduce(largest);
    // Exponentials of nothing but -inf are zero.
    const A pivot = largest.value == A(-INFINITY) ? A(0) : largest.value;
    RowTotals<A> totals;
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int c = team.rank() + k * lanes;
      const A shifted = x[k] - pivot;
      if (c < width) totals.shifted += f.weights.of(c) * shifted;
      if (c == label) totals.at_label = shifted;
      x[k] = exp(shifted);
      totals.exps += x[k];
    }
    totals = team.reduce(totals);
    if (sample < 0) return;

    const bool counts = label != f.labels.ignore_index;
    const bool in_range = label >= 0 && label < samples.classes;
    const A weight = f.weights.of_label(label, samples.classes);
    if (team.rank() == 0) {
      f.write({sample, counts, weight, pivot, totals.exps, in_range ? totals.at_label : A(NAN),
               totals.shifted / A(samples.classes)},
              mean_weight, sum);
    }
    if (!f.dlogits) return;
    A scale = f.dloss[f.reduction == Reduction::none ? own : 0] / divisor;
    if (!in_range) scale = A(NAN);
    const A of_label = (1 - f.weights.smoothing) * weight;
    const A total = of_label + f.weights.smoothing * mean_weight;
    const A factor = scale * total / totals.exps;
    const A share = scale * f.weights.smoothing / A(samples.classes);
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int c = team.rank() + k * lanes;
      if (c >= width) continue;
      A value = x[k] * factor - share * f.weights.of(c);
      if (c == label) value -= scale * of_label;
      f.dlogits[own * samples.classes + c] = narrow<T>(counts ? value : A(0));
    }
  });
  f.finish(sum);
}

template <class T, bool weighted>
void forward_in_registers(Context& context, Forward<T, weighted> f, Samples samples) {
  const int64_t classes = std::max<int64_t>(samples.classes, 1);
  const int lanes = int(std::min<uint64_t>(32, std::bit_ceil(uint64_t(classes))));
  const int64_t threads = samples.count * lanes;
  const bool single = classes <= lanes;  // logit a thread
  Grid grid = grid_for(context, std::max<int64_t>(threads, 1));
  if (single && threads <= 1024) {  // one block has no others to wait for
    grid.blocks = 1;
    grid.threads = unsigned(std::clamp<uint64_t>(std::bit_ceil(uint64_t(threads)), 32, 1024));
  }
  std::optional<Workspace> partials;
  if (grid.blocks.x > 1) {
    partials.emplace(context, grid.blocks.x * sizeof(LossSum));
    f.partials = partials->as<LossSum>();
  }
  if (single) return launch(context, rows_in_registers<1, T, weighted>, grid, f, samples, lanes);
  if (classes <= 4 * lanes) {
    return launch(context, rows_in_registers<4, T, weighted>, grid, f, samples, lanes);
  }
  launch(context, rows_in_registers<32, T, weighted>, grid, f, samples, lanes);
}

// -- rows of a block each ------------------------------------------------------------------------

// The sum of exponentials, and of the weighted values less the first one.
template <class A>
struct RowSums {
  ExpSum<A> exps;
  A values = 0;
  __device__ void merge(const RowSums& other) {
    exps.merge(other.exps);
    values += other.values;
  }
};

// n logits at a time.
template <int n, class T, bool weighted>
__global__ void __launch_bounds__(512) rows_by_block(Forward<T, weighted> f, Samples samples) {
  begin_kernel();
  using A = Accumulator<T>;
  using Values = const Vector<T, n>[1];
  LossSum sum;
  const A smoothing = f.weights.smoothing, mean_weight = f.weights.mean(samples.classes);
  for (int64_t i = blockIdx.x; i < samples.count; i += gridDim.x) {
    const T* const x = f.logits + i * samples.classes;
    // Loaded early, as one depends on the other.
    const int64_t label = f.labels[i];
    const bool in_range = label >= 0 && label < samples.classes;
    const A at_label = in_range ? widen<T>(x[label]) : A(NAN);
    const A first = smoothing > 0 && isfinite(widen<T>(x[0])) ? widen<T>(x[0]) : A(0);
    RowSums<A> row;
    for_vectors<n>({x}, Line{samples.classes, 1}, Block(), [&](int64_t c, Values& in) {
      row.exps.add(in[0]);
      if (smoothing > 0) {
#pragma unroll
        for (int k = 0; k < n; ++k) {
          row.values += f.weights.of(c + k) * (widen<T>(in[0].at[k]) - first);
        }
      }
    });
    row = Block().reduce(row);
    if (threadIdx.x != 0) continue;
    const A pivot = row.exps.pivot();
    f.write({i, label != f.labels.ignore_index, f.weights.of_label(label, samples.classes), pivot,
             row.exps.sum, at_label - pivot,
             row.values / A(samples.classes) + mean_weight * (first - pivot)},
            mean_weight, sum);
  }
  f.finish(sum);
}

template <int n, class T, bool weighted>
void forward_by_block(Context& context, Forward<T, weighted> f, Samples samples) {
  const int64_t most = int64_t(context.multiprocessors()) * 8;
  const Grid grid{.blocks = unsigned(std::clamp<int64_t>(samples.count, 1, most)),
                  .threads = threads_for_row(samples.classes / n)};
  const Workspace partials(context, grid.blocks.x * sizeof(LossSum));
  f.partials = partials.as<LossSum>();
  launch(context, rows_by_block<n, T, weighted>, grid, f, samples);
}

// -- log-probabilities ---------------------------------------------------------------------------

// A thread a sample: what it reads of a row is the label's alone.
template <class T, bool weighted>
__global__ void __launch_bounds__(1024) label_losses(Forward<T, weighted> f, Samples samples) {
  begin_kernel();
  using A = Accumulator<T>;
  LossSum sum;
  for (int64_t i = first_item(); i < samples.count; i += all_threads()) {
    const int64_t label = f.labels[i];
    const bool in_range = label >= 0 && label < samples.classes;
    f.write({.sample = i,
             .counts = label != f.labels.ignore_index,
             .weight = f.weights.of_label(label, samples.classes),
             .pivot = 0,
             .exps = 1,
             .at_label = in_range ? widen<T>(f.logits[i * samples.classes + label]) : A(NAN),
             .mean = 0},
            A(1), sum);
  }
  f.finish(sum);
}

template <class T, bool weighted>
void forward_of_labels(Context& context, Forward<T, weighted> f, Samples samples) {
  Grid grid = grid_for(context, std::max<int64_t>(samples.count, 1));
  if (samples.count <= 1024) grid = {.blocks = 1, .threads = samples.count <= 256 ? 256 : 1024};
  const Workspace partials(context, grid.blocks.x * sizeof(LossSum));
  f.partials = partials.as<LossSum>();
  launch(context, label_losses<T, weighted>, grid, f, samples);
}

template <class T, bool weighted>
Forward<T, weighted> forward_of(const kernels::CrossEntropyForward& call, bool with_gradient) {
  using A = Accumulator<T>;
  return {.logits = call.logits.as<T>(),
          .labels = labels_of(call.labels, call.loss_params),
          .loss = call.loss.as<A>(),
          .log_sum_exp = call.loss_params.log_probabilities ? nullptr : call.log_sum_exp.as<A>(),
          .counted = call.counted.as<A>(),
          .partials = nullptr,
          .weights = {call.class_weights.as<const A>(), A(call.loss_params.label_smoothing)},
          .reduction = call.loss_params.reduction,
          .dloss = call.dloss.as<const A>(),
          .dlogits = with_gradient ? call.dlogits.as<T>() : nullptr};
}

}  // namespace

void run(Context& context, const kernels::CrossEntropyForward& call) {
  const Samples samples{call.logits.shape[0], call.logits.shape[1]};
  const bool of_labels = call.loss_params.log_probabilities;
  const bool in_registers = !of_labels && samples.classes <= register_classes;
  const bool with_gradient =
      call.dlogits.defined() && in_registers && samples.count <= most_counted;
  dispatch_float(call.logits.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    dispatch_weights(call, [&](auto weighted) {
      const auto f = forward_of<T, weighted>(call, with_gradient);
      if (of_labels) {
        forward_of_labels(context, f, samples);
      } else if (in_registers) {
        forward_in_registers(context, f, samples);
      } else if (vectors_fit<T>(samples.classes, call.logits, call.logits)) {
        forward_by_block<16 / int(sizeof(T))>(context, f, samples);
      } else {
        forward_by_block<1>(context, f, samples);
      }
    });
  });
  if (!call.dlogits.defined() || with_gradient) return;
  run(context, kernels::CrossEntropyBackward{.logits = call.logits,
                                             .labels = call.labels,
                                             .class_weights = call.class_weights,
                                             .log_sum_exp = call.log_sum_exp,
                                             .counted = call.counted,
                                             .dloss = call.dloss,
                                             .dlogits = call.dlogits,
                                             .loss_params = call.loss_params});
}

}  // namespace adret::cuda
