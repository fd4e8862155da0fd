// Cross-entropy of logits, a row a sample.
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
  Labels(const TensorView& view, const TensorView& logits, const CrossEntropyParams& params)
      : view_(view), classes_(logits.shape[1]), ignore_index_(params.ignore_index) {}
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

// The loss of a sample that counts. NaN for a label out of range.
template <class T>
double sample_loss(const T* x, int64_t n, const Labels& labels, int64_t label, double log_sum,
                   double smoothing) {
  if (!labels.in_range(label)) return std::numeric_limits<double>::quiet_NaN();
  double expected = (1 - smoothing) * double(x[label]);
  if (smoothing > 0) expected += smoothing * reduce_row<Sum<T>>(x, n) / double(n);
  return log_sum - expected;
}

template <class T>
void forward(const kernels::CrossEntropyForward& call) {
  const CrossEntropyParams& params = call.loss_params;
  const int64_t samples = call.logits.shape[0], classes = call.logits.shape[1];
  const Labels labels(call.labels, call.logits, params);
  const T* logits = call.logits.as<T>();
  T *loss = call.loss.as<T>(), *log_sums = call.log_sum_exp.as<T>();
  const Workspace<double> losses(samples);
  parallel_for(samples, items_per_chunk(math_grain, classes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* x = logits + i * classes;
      const double log_sum = log_sum_exp(x, classes);
      const int64_t label = labels[i];
      log_sums[i] = T(log_sum);
      losses.data()[i] = labels.counts(label) ? sample_loss(x, classes, labels, label, log_sum,
                                                            params.label_smoothing)
                                              : 0.0;
    }
  });
  int64_t counted = 0;
  for (int64_t i = 0; i < samples; ++i) counted += labels.counts(labels[i]);
  *call.counted.as<T>() = T(counted);
  if (params.reduction == Reduction::none) {
    std::transform(losses.data(), losses.data() + samples, loss,
                   [](double value) { return T(value); });
    return;
  }
  const double sum = reduce_row<Sum<double>>(losses.data(), samples);
  const bool is_mean = params.reduction == Reduction::mean;
  *loss = T(is_mean ? sum / double(std::max<int64_t>(1, counted)) : sum);
}

// dx = (softmax(x) - target) * scale of one sample. The softmax is normalised here once more:
// log_sum is rounded, which matters when it is large.
template <class T>
void sample_gradient(const T* x, T* dx, int64_t n, int64_t label, T log_sum, double smoothing,
                     double scale) {
#pragma GCC ivdep
  for (int64_t c = 0; c < n; ++c) dx[c] = cpu::exp(x[c] - log_sum);
  const T factor = T(scale / reduce_row<Sum<T>>(dx, n));
  const T share = T(scale * smoothing / double(n));
#pragma GCC ivdep
  for (int64_t c = 0; c < n; ++c) dx[c] = dx[c] * factor - share;
  dx[label] -= T(scale * (1 - smoothing));
}

template <class T>
void backward(const kernels::CrossEntropyBackward& call) {
  const CrossEntropyParams& params = call.loss_params;
  const int64_t samples = call.logits.shape[0], classes = call.logits.shape[1];
  const Labels labels(call.labels, call.logits, params);
  const T *logits = call.logits.as<T>(), *log_sums = call.log_sum_exp.as<T>();
  const T* dloss = call.dloss.as<T>();
  T* dlogits = call.dlogits.as<T>();
  const bool per_sample = params.reduction == Reduction::none;
  const bool is_mean = params.reduction == Reduction::mean;
  const double divisor = is_mean ? std::max(1.0, double(*call.counted.as<T>())) : 1.0;
  parallel_for(samples, items_per_chunk(math_grain, classes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = labels[i];
      T* dx = dlogits + i * classes;
      if (!labels.counts(label)) {
        std::fill_n(dx, classes, T(0));
      } else if (!labels.in_range(label)) {
        std::fill_n(dx, classes, std::numeric_limits<T>::quiet_NaN());
      } else {
        sample_gradient(logits + i * classes, dx, classes, label, log_sums[i],
                        params.label_smoothing, double(dloss[per_sample ? i : 0]) / divisor);
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
                                    .log_sum_exp = call.log_sum_exp,
                                    .counted = call.counted,
                                    .dloss = call.dloss,
                                    .dlogits = call.dlogits,
                                    .loss_params = call.loss_params});
}

void run(const kernels::CrossEntropyBackward& call) {
  dispatch_float(call.logits.dtype, call.name, [&](auto zero) { backward<decltype(zero)>(call); });
}

}  // namespace adret::cpu
