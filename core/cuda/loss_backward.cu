// The gradient of cross-entropy: a team of threads takes a sample.
#include <adret/core/cuda/exp_sum.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/loss_rows.h>
#include <adret/core/cuda/team.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace adret::cuda {

using kernels::Reduction;

namespace {

constexpr int64_t warp_classes = 512;  // samples of more classes have a block each

// Rounding a log_sum_exp of this size in f32 changes the softmax by 5e-7 of its value. f64 is for
// checks, and takes no such liberty.
template <class A>
constexpr int large_log_sum = std::is_same_v<A, double> ? -1 : 16;

template <class T, bool weighted>
struct Backward {
  using A = Accumulator<T>;
  const T* logits;  // null: of log-probabilities
  Labels labels;
  const A *log_sum_exp, *counted, *dloss;
  T* dlogits;
  ClassWeights<A, weighted> weights;
  Reduction reduction;

  // What a row of log-probabilities gets: `at_label` less at the label than elsewhere.
  struct LabelSlope {
    int64_t label;
    A at_label, elsewhere;
  };
  template <int n, class Team>
  __device__ static void write_label(T* dx, int64_t width, LabelSlope slope, const Team& team) {
    for (int64_t c = int64_t(team.rank()) * n; c < width; c += int64_t(team.size()) * n) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        A value = slope.elsewhere;
        if (c + k == slope.label) value -= slope.at_label;
        out.at[k] = narrow<T>(value);
      }
      *reinterpret_cast<Vector<T, n>*>(dx + c) = out;
    }
  }

  // (sum(target) softmax - target) * scale. log_sum_exp is rounded, which matters when it is large:
  // the exponentials are summed again then. Teams within a warp agree on it by a vote.
  template <int n, class Team>
  __device__ void run(int64_t sample, int64_t classes, A mean_weight, const Team& team) const {
    using Values = const Vector<T, n>[1];
    const int64_t own = sample < 0 ? 0 : sample, width = sample < 0 ? 0 : classes;
    const int64_t label = labels[own];
    const bool counts = label != labels.ignore_index;
    A scale = dloss[reduction == Reduction::none ? own : 0];
    if (reduction == Reduction::mean && *counted != 0) scale /= *counted;
    const bool in_range = label >= 0 && label < classes;
    if (!in_range) scale = A(NAN);
    T* const dx = dlogits + own * classes;
    if (!logits) {
      const A at_label = counts ? scale * weights.of_label(label, classes) : A(0);
      return write_label<n>(dx, width, {label, at_label, in_range ? A(0) : at_label}, team);
    }
    const T* const x = logits + own * classes;
    const Line line{width, 1};
    A pivot = log_sum_exp[own], normaliser = 1;
    if (__any_sync(~0u, fabs(pivot) > large_log_sum<A>)) {
      ExpSum<A> sums;
      for_vectors<n>({x}, line, team, [&](int64_t, Values& in) { sums.add(in[0]); });
      sums = team.reduce(sums);
      pivot = sums.largest;
      normaliser = A(1) / sums.sum;
    }
    const A of_label = (1 - weights.smoothing) * weights.of_label(label, classes);
    const A factor = scale * normaliser * (of_label + weights.smoothing * mean_weight);
    const A share = scale * weights.smoothing / A(classes), at_label = scale * of_label;
    for_vectors<n>({x}, line, team, [&](int64_t c, Values& in) {
      Vector<T, n> out;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        A value = exp_of<T>(widen<T>(in[0].at[k]) - pivot) * factor - share * weights.of(c + k);
        if (c + k == label) value -= at_label;
        out.at[k] = narrow<T>(counts ? value : A(0));
      }
      *reinterpret_cast<Vector<T, n>*>(dx + c) = out;
    });
  }
};

template <int n, class T, bool weighted>
__global__ void backward_by_lanes(Backward<T, weighted> f, Samples samples, int lanes) {
  begin_kernel();
  const Accumulator<T> mean_weight = f.weights.mean(samples.classes);
  for_samples_by_lanes(samples.count, lanes, [&](int64_t sample) {
    f.template run<n>(sample, samples.classes, mean_weight, Lanes(lanes));
  });
}

template <int n, class T, bool weighted>
__global__ void __launch_bounds__(512) backward_by_block(Backward<T, weighted> f, Samples samples) {
  begin_kernel();
  const Accumulator<T> mean_weight = f.weights.mean(samples.classes);
  for (int64_t i = blockIdx.x; i < samples.count; i += gridDim.x) {
    f.template run<n>(i, samples.classes, mean_weight, Block());
  }
}

int lanes_for(int64_t vectors) {
  return int(std::min<uint64_t>(32, std::bit_ceil(uint64_t(std::max<int64_t>(1, vectors)))));
}

template <int n, class T, bool weighted>
void backward(Context& context, const Backward<T, weighted>& f, Samples samples) {
  const int64_t vectors = samples.classes / n;
  if (samples.classes <= warp_classes) {
    const int lanes = lanes_for(vectors);
    launch(context, backward_by_lanes<n, T, weighted>,
           grid_for(context, samples.count * lanes, 128), f, samples, lanes);
    return;
  }
  const int64_t most = int64_t(context.multiprocessors()) * 64;
  launch(context, backward_by_block<n, T, weighted>,
         {.blocks = unsigned(std::min(samples.count, most)), .threads = threads_for_row(vectors)},
         f, samples);
}

}  // namespace

void run(Context& context, const kernels::CrossEntropyBackward& call) {
  const Samples samples{call.dlogits.shape[0], call.dlogits.shape[1]};
  if (samples.count == 0 || samples.classes == 0) return;
  dispatch_float(call.dlogits.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    dispatch_weights(call, [&](auto weighted) {
      const Backward<T, weighted> f{
          .logits = call.loss_params.log_probabilities ? nullptr : call.logits.as<T>(),
          .labels = labels_of(call.labels, call.loss_params),
          .log_sum_exp = call.log_sum_exp.as<A>(),
          .counted = call.counted.as<A>(),
          .dloss = call.dloss.as<A>(),
          .dlogits = call.dlogits.as<T>(),
          .weights = {call.class_weights.as<A>(), A(call.loss_params.label_smoothing)},
          .reduction = call.loss_params.reduction};
      if (vectors_fit<T>(samples.classes, call.logits, call.dlogits)) {
        backward<16 / int(sizeof(T))>(context, f, samples);
      } else {
        backward<1>(context, f, samples);
      }
    });
  });
}

}  // namespace adret::cuda
