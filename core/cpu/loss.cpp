// Cross-entropy of logits or log-probabilities, a row a sample.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/reduce_rows.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace adret::cpu {

using kernels::CrossEntropyParams;
using kernels::Reduction;

namespace {

class Labels {
 public:
  Labels(const TensorView& view, int64_t classes, const CrossEntropyParams& params)
      : view_(view), classes_(classes), ignore_index_(params.ignore_index) {}
  int64_t operator[](int64_t sample) const {
    return view_.dtype == DType::i32 ? view_.as<int32_t>()[sample] : view_.as<int64_t>()[sample];
  }
  bool counts(int64_t label) const { return label != ignore_index_; }
  bool in_range(int64_t label) const { return label >= 0 && label < classes_; }

 private:
  TensorView view_;
  int64_t classes_, ignore_index_;
};

// log(sum(exp(x))) of one row.
template <class T>
double log_sum_exp(const T* x, int64_t n) {
  constexpr int64_t block = 256;
  T exps[block];
  const T largest = reduce_row<Max<T>>(x, n);
  double sum = 0;
  for (int64_t first = 0; first < n; first += block) {
    const int64_t count = std::min(block, n - first);
    for (int64_t i = 0; i < count; ++i) exps[i] = cpu::exp(x[first + i] - largest);
    sum += reduce_row<Sum<T>>(exps, count);
  }
  return double(largest) + std::log(sum);
}

// What the logits should be: class c counts share * weight(c), and the label's rest * weight more.
template <class T>
struct Target {
  const T* weights;  // null: all 1
  double rest, share, total_weight;

  Target(const TensorView& weights, int64_t classes, double smoothing)
      : weights(weights.as<T>()),
        rest(1 - smoothing),
        share(smoothing / double(classes)),
        total_weight(weights.defined() ? reduce_row<Sum<T>>(weights.as<T>(), classes)
                                       : double(classes)) {}
  double weight(int64_t c) const { return weights ? double(weights[c]) : 1.0; }
  // Of all classes.
  double total(int64_t label) const {
    return rest * weight(label) + (share > 0 ? share * total_weight : 0);
  }
};

// The loss of a sample that counts. NaN for a label out of range.
template <class T>
double sample_loss(const T* x, int64_t n, const Labels& labels, int64_t label, double log_sum,
                   const Target<T>& target) {
  if (!labels.in_range(label)) return std::numeric_limits<double>::quiet_NaN();
  const double at_label = target.rest * target.weight(label) * (log_sum - double(x[label]));
  if (!(target.share > 0)) return at_label;
  double weighted = 0;
  if (target.weights) {
    for (int64_t c = 0; c < n; ++c) weighted += target.weight(c) * double(x[c]);
  } else {
    weighted = reduce_row<Sum<T>>(x, n);
  }
  return at_label + target.share * (target.total_weight * log_sum - weighted);
}

template <class T>
void forward(const kernels::CrossEntropyForward& call) {
  const CrossEntropyParams& params = call.loss_params;
  const int64_t samples = call.logits.shape[0], classes = call.logits.shape[1];
  const Labels labels(call.labels, classes, params);
  const T* logits = call.logits.as<T>();
  T* const loss = call.loss.as<T>();
  T* const log_sums = params.log_probabilities ? nullptr : call.log_sum_exp.as<T>();
  const Target<T> target(call.class_weights, classes, params.label_smoothing);
  const Workspace<double> losses(samples);
  const int64_t read = log_sums ? classes : 1;  // elements of a row
  parallel_for(samples, items_per_chunk(math_grain, read), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* x = logits + i * classes;
      const double log_sum = log_sums ? log_sum_exp(x, classes) : 0.0;
      const int64_t label = labels[i];
      if (log_sums) log_sums[i] = T(log_sum);
      losses.data()[i] =
          labels.counts(label) ? sample_loss(x, classes, labels, label, log_sum, target) : 0.0;
    }
  });
  double counted = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t label = labels[i];
    if (labels.counts(label)) counted += labels.in_range(label) ? target.weight(label) : 1.0;
  }
  *call.counted.as<T>() = T(counted);
  if (params.reduction == Reduction::none) {
    std::transform(losses.data(), losses.data() + samples, loss,
                   [](double value) { return T(value); });
    return;
  }
  const double sum = reduce_row<Sum<double>>(losses.data(), samples);
  const bool is_mean = params.reduction == Reduction::mean;
  *loss = T(is_mean && counted != 0 ? sum / counted : sum);
}

// dx = (total target softmax(x) - target) * scale of one sample. The softmax is normalised here
// once more: log_sum is rounded, which matters when it is large.
template <class T>
void sample_gradient(const T* x, T* dx, int64_t n, int64_t label, T log_sum,
                     const Target<T>& target, double scale) {
#pragma GCC ivdep
  for (int64_t c = 0; c < n; ++c) dx[c] = cpu::exp(x[c] - log_sum);
  const T factor = T(scale * target.total(label) / reduce_row<Sum<T>>(dx, n));
  const T share = T(scale * target.share);
  const T* const weights = share != 0 ? target.weights : nullptr;
#pragma GCC ivdep
  for (int64_t c = 0; c < n; ++c) {
    dx[c] = dx[c] * factor - (weights ? share * weights[c] : share);
  }
  dx[label] -= T(scale * target.rest * target.weight(label));
}

template <class T>
void backward(const kernels::CrossEntropyBackward& call) {
  const CrossEntropyParams& params = call.loss_params;
  const int64_t samples = call.dlogits.shape[0], classes = call.dlogits.shape[1];
  const Labels labels(call.labels, classes, params);
  const T* const logits = params.log_probabilities ? nullptr : call.logits.as<T>();
  const T* const log_sums = call.log_sum_exp.as<T>();
  const T* dloss = call.dloss.as<T>();
  T* dlogits = call.dlogits.as<T>();
  const bool per_sample = params.reduction == Reduction::none;
  const bool is_mean = params.reduction == Reduction::mean;
  const double counted = is_mean ? double(*call.counted.as<T>()) : 1.0;
  const double divisor = counted != 0 ? counted : 1.0;
  const Target<T> target(call.class_weights, classes, params.label_smoothing);
  const int64_t grain = logits ? math_grain : memory_grain;
  parallel_for(samples, items_per_chunk(grain, classes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = labels[i];
      T* dx = dlogits + i * classes;
      if (!labels.counts(label)) {
        std::fill_n(dx, classes, T(0));
      } else if (!labels.in_range(label)) {
        std::fill_n(dx, classes, std::numeric_limits<T>::quiet_NaN());
      } else {
        const double scale = double(dloss[per_sample ? i : 0]) / divisor;
        if (logits) {
          sample_gradient(logits + i * classes, dx, classes, label, log_sums[i], target, scale);
        } else {
          std::fill_n(dx, classes, T(0));
          dx[label] = T(-scale * target.weight(label));
        }
      }
    }
  });
}

}  // namespace

void run(const kernels::CrossEntropyForward& call) {
  dispatch_float(call.logits.dtype, call.name, [&](auto zero) { forward<decltype(zero)>(call); });
  if (!call.dlogits.defined()) return;
  run(kernels::CrossEntropyBackward{.logits = call.logits,
                                    .labels = call.labels,
                                    .class_weights = call.class_weights,
                                    .log_sum_exp = call.log_sum_exp,
                                    .counted = call.counted,
                                    .dloss = call.dloss,
                                    .dlogits = call.dlogits,
                                    .loss_params = call.loss_params});
}

void run(const kernels::CrossEntropyBackward& call) {
  dispatch_float(call.dlogits.dtype, call.name, [&](auto zero) { backward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
