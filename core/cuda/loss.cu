// Cross-entropy: a team of threads takes a sample, and the block that is done last adds up.
#include <adret/core/cuda/exp_sum.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda/workspace.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <type_traits>

namespace adret::cuda {

using kernels::Reduction;

namespace {

constexpr int64_t warp_classes = 512;  // samples of more classes have a block each

__device__ unsigned blocks_done;  // one launch at a time uses it: all are on one stream

struct Labels {
  const void* data;
  bool is_i64;
  int64_t ignore_index;

  __device__ int64_t operator[](int64_t sample) const {
    return is_i64 ? static_cast<const int64_t*>(data)[sample]
                  : static_cast<const int32_t*>(data)[sample];
  }
};

struct Samples {
  int64_t count, classes;
};

// -- forward -------------------------------------------------------------------------------------

struct LossSum {
  double loss = 0;
  int64_t counted = 0;
  __device__ void merge(const LossSum& other) {
    loss += other.loss;
    counted += other.counted;
  }
};

// Of one row: the sum of exponentials, and of the values less the first one.
template <class A>
struct RowSums {
  ExpSum<A> exps;
  A values = 0;
  __device__ void merge(const RowSums& other) {
    exps.merge(other.exps);
    values += other.values;
  }
};

template <class T>
struct Forward {
  using A = Accumulator<T>;
  const T* logits;
  Labels labels;
  A *loss, *log_sum_exp, *counted;
  LossSum* partials;  // a block each; unused for one block
  A smoothing;
  Reduction reduction;

  // n logits at a time. A team may hold a sample of no classes that does not exist; its number is
  // -1 then.
  template <int n, class Team>
  __device__ void run(int64_t sample, int64_t classes, const Team& team, LossSum& sum) const {
    using Values = const Vector<T, n>[1];
    const int64_t own = sample < 0 ? 0 : sample, width = sample < 0 ? 0 : classes;
    const T* const x = logits + own * classes;
    // Loaded early, as one depends on the other.
    const int64_t label = labels[own];
    const bool in_range = label >= 0 && label < classes;
    const A at_label = in_range ? widen<T>(x[label]) : A(NAN);
    const A first = smoothing > 0 && width > 0 && isfinite(widen<T>(x[0])) ? widen<T>(x[0]) : A(0);
    RowSums<A> row;
    for_vectors<n>({x}, Line{width, 1}, team, [&](int64_t, Values& in) {
      row.exps.add(in[0]);
      if (smoothing > 0) {
#pragma unroll
        for (int k = 0; k < n; ++k) row.values += widen<T>(in[0].at[k]) - first;
      }
    });
    row = team.reduce(row);
    if (team.rank() != 0 || sample < 0) return;

    const A largest = row.exps.largest, log_sum = ::log(row.exps.sum);
    const bool counts = label != labels.ignore_index;
    A value = 0;
    if (counts) {
      // Relative to the largest logit, so that a large one costs no precision; NaN out of range.
      value = log_sum - (1 - smoothing) * (at_label - largest);
      if (smoothing > 0) value -= smoothing * (row.values / A(classes) + (first - largest));
    }
    log_sum_exp[sample] = largest + log_sum;
    if (reduction == Reduction::none) loss[sample] = value;
    sum.loss += double(value);
    sum.counted += counts;
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
    *loss = A(is_mean ? sum.loss / double(max(sum.counted, int64_t(1))) : sum.loss);
  }
};

// -- backward ------------------------------------------------------------------------------------

// Rounding a log_sum_exp of this size in f32 changes the softmax by 5e-7 of its value. f64 is for
// checks, and takes no such liberty.
template <class A>
constexpr int large_log_sum = std::is_same_v<A, double> ? -1 : 16;

template <class T>
struct Backward {
  using A = Accumulator<T>;
  const T* logits;
  Labels labels;
  const A *log_sum_exp, *counted, *dloss;
  T* dlogits;
  A smoothing;
  Reduction reduction;

  // (softmax - target) * scale. log_sum_exp is rounded, which matters when it is large: the
  // exponentials are summed again then. Teams within a warp agree on it by a vote.
  template <int n, class Team>
  __device__ void run(int64_t sample, int64_t classes, const Team& team) const {
    using Values = const Vector<T, n>[1];
    const int64_t own = sample < 0 ? 0 : sample, width = sample < 0 ? 0 : classes;
    const T* const x = logits + own * classes;
    T* const dx = dlogits + own * classes;
    const int64_t label = labels[own];
    const Line line{width, 1};
    A pivot = log_sum_exp[own], normaliser = 1;
    if (__any_sync(~0u, fabs(pivot) > large_log_sum<A>)) {
      ExpSum<A> sums;
      for_vectors<n>({x}, line, team, [&](int64_t, Values& in) { sums.add(in[0]); });
      sums = team.reduce(sums);
      pivot = sums.largest;
      normaliser = A(1) / sums.sum;
    }
    A scale = dloss[reduction == Reduction::none ? own : 0];
    if (reduction == Reduction::mean) scale /= max(*counted, A(1));
    if (label < 0 || label >= classes) scale = A(NAN);
    const bool counts = label != labels.ignore_index;
    const A factor = scale * normaliser, share = scale * smoothing / A(classes);
    const A at_label = scale * (1 - smoothing);
    for_vectors<n>({x}, line, team, [&](int64_t c, Values& in) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        A value = exp(widen<T>(in[0].at[k]) - pivot) * factor - share;
        if (c + k == label) value -= at_label;
        out.at[k] = narrow<T>(counts ? value : A(0));
      }
      *reinterpret_cast<Vector<T, n>*>(dx + c) = out;
    });
  }
};

// -- all samples ---------------------------------------------------------------------------------

// f(sample) for the samples of the thread's team; -1 for a thread that keeps its warp company.
template <class F>
__device__ void for_samples_by_lanes(int64_t count, int lanes, F f) {
  const int64_t before = first_item() % 32 / lanes;  // teams of the warp before this one
  const int64_t teams = all_threads() / lanes;
  for (int64_t first = first_item() / lanes - before; first < count; first += teams) {
    f(first + before < count ? first + before : -1);
  }
}

template <int n, class T>
__global__ void __launch_bounds__(1024) forward_by_lanes(Forward<T> f, Samples samples, int lanes) {
  begin_kernel();
  LossSum sum;
  for_samples_by_lanes(samples.count, lanes, [&](int64_t sample) {
    f.template run<n>(sample, samples.classes, Lanes(lanes), sum);
  });
  f.finish(sum);
}

template <int n, class T>
__global__ void __launch_bounds__(512) forward_by_block(Forward<T> f, Samples samples) {
  begin_kernel();
  LossSum sum;
  for (int64_t i = blockIdx.x; i < samples.count; i += gridDim.x) {
    f.template run<n>(i, samples.classes, Block(), sum);
  }
  f.finish(sum);
}

template <int n, class T>
__global__ void backward_by_lanes(Backward<T> f, Samples samples, int lanes) {
  begin_kernel();
  for_samples_by_lanes(samples.count, lanes, [&](int64_t sample) {
    f.template run<n>(sample, samples.classes, Lanes(lanes));
  });
}

template <int n, class T>
__global__ void __launch_bounds__(512) backward_by_block(Backward<T> f, Samples samples) {
  begin_kernel();
  for (int64_t i = blockIdx.x; i < samples.count; i += gridDim.x) {
    f.template run<n>(i, samples.classes, Block());
  }
}

int lanes_for(int64_t vectors) {
  return int(std::min<uint64_t>(32, std::bit_ceil(uint64_t(std::max<int64_t>(1, vectors)))));
}

unsigned threads_for_row(int64_t vectors) { return vectors <= 4096 ? 256 : 512; }

template <int n, class T>
void forward(Context& context, Forward<T> f, Samples samples) {
  const int64_t vectors = samples.classes / n;
  const bool by_lanes = samples.classes <= warp_classes;
  const int lanes = lanes_for(vectors);
  const int64_t threads = samples.count * lanes;
  Grid grid;
  if (!by_lanes) {
    const int64_t most = int64_t(context.multiprocessors()) * 8;
    grid.blocks = unsigned(std::clamp<int64_t>(samples.count, 1, most));
    grid.threads = threads_for_row(vectors);
  } else if (threads <= 2048) {  // one block has no others to wait for
    grid.blocks = 1;
    grid.threads = unsigned(std::clamp<uint64_t>(std::bit_ceil(uint64_t(threads)), 32, 1024));
  } else {
    grid = grid_for(context, threads);
  }
  std::optional<Workspace> partials;
  if (grid.blocks.x > 1) {
    partials.emplace(context, grid.blocks.x * sizeof(LossSum));
    f.partials = partials->as<LossSum>();
  }
  if (by_lanes) {
    launch(context, forward_by_lanes<n, T>, grid, f, samples, lanes);
  } else {
    launch(context, forward_by_block<n, T>, grid, f, samples);
  }
}

template <int n, class T>
void backward(Context& context, const Backward<T>& f, Samples samples) {
  const int64_t vectors = samples.classes / n;
  if (samples.classes <= warp_classes) {
    const int lanes = lanes_for(vectors);
    launch(context, backward_by_lanes<n, T>, grid_for(context, samples.count * lanes, 128), f,
           samples, lanes);
    return;
  }
  const int64_t most = int64_t(context.multiprocessors()) * 64;
  launch(context, backward_by_block<n, T>,
         {.blocks = unsigned(std::min(samples.count, most)), .threads = threads_for_row(vectors)},
         f, samples);
}

Labels labels_of(const TensorView& labels, const kernels::CrossEntropyParams& params) {
  return {labels.data, labels.dtype == DType::i64, params.ignore_index};
}

// Whether rows of `classes` elements begin at 16 bytes.
template <class T>
bool vectors_fit(int64_t classes, const TensorView& a, const TensorView& b) {
  return aligned_16(a.as<T>(), b.as<T>()) && classes * int64_t(sizeof(T)) % 16 == 0;
}

}  // namespace

void run(Context& context, const kernels::CrossEntropyForward& call) {
  const Samples samples{call.logits.shape[0], call.logits.shape[1]};
  dispatch_float(call.logits.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Forward<T> f{.logits = call.logits.as<T>(),
                       .labels = labels_of(call.labels, call.loss_params),
                       .loss = call.loss.as<A>(),
                       .log_sum_exp = call.log_sum_exp.as<A>(),
                       .counted = call.counted.as<A>(),
                       .partials = nullptr,
                       .smoothing = A(call.loss_params.label_smoothing),
                       .reduction = call.loss_params.reduction};
    if (vectors_fit<T>(samples.classes, call.logits, call.logits)) {
      forward<16 / int(sizeof(T))>(context, f, samples);
    } else {
      forward<1>(context, f, samples);
    }
  });
}

void run(Context& context, const kernels::CrossEntropyBackward& call) {
  const Samples samples{call.logits.shape[0], call.logits.shape[1]};
  if (samples.count == 0 || samples.classes == 0) return;
  dispatch_float(call.logits.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Backward<T> f{.logits = call.logits.as<T>(),
                        .labels = labels_of(call.labels, call.loss_params),
                        .log_sum_exp = call.log_sum_exp.as<A>(),
                        .counted = call.counted.as<A>(),
                        .dloss = call.dloss.as<A>(),
                        .dlogits = call.dlogits.as<T>(),
                        .smoothing = A(call.loss_params.label_smoothing),
                        .reduction = call.loss_params.reduction};
    if (vectors_fit<T>(samples.classes, call.logits, call.dlogits)) {
      backward<16 / int(sizeof(T))>(context, f, samples);
    } else {
      backward<1>(context, f, samples);
    }
  });
}

}  // namespace adret::cuda
