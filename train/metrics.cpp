// Counting hits on the host: a batch of logits is a few kilobytes.
#include <adret/autograd/grad_mode.h>
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <adret/train/metrics.h>
#include <fmt/core.h>

#include <span>
#include <vector>

namespace adret {
namespace {

size_t largest(std::span<const float> numbers) {
  size_t best = 0;
  for (size_t c = 1; c < numbers.size(); ++c) {
    if (numbers[c] > numbers[best] || numbers[best] != numbers[best]) best = c;
  }
  return best;
}

// Integer labels, or the largest of each row of shares.
std::vector<int64_t> labels_of(const Tensor& labels) {
  if (!is_floating(labels.dtype())) return labels.to(DType::i64).to_vector<int64_t>();
  const std::vector<float> shares = labels.to(DType::f32).to_vector();
  const auto classes = size_t(labels.size(1));
  std::vector<int64_t> result;
  for (size_t at = 0; at < shares.size(); at += classes) {
    result.push_back(int64_t(largest(std::span(shares).subspan(at, classes))));
  }
  return result;
}

// Logits and labels on the host, with their shapes checked; calls visit(logits of a sample, label).
template <class Visit>
void for_each_sample(const char* function, const Tensor& logits, const Tensor& labels,
                     const Visit& visit) {
  const NoGrad no_grad;
  const bool fits =
      logits.rank() == 2 && is_floating(logits.dtype()) &&
      (is_floating(labels.dtype()) ? labels.shape() == logits.shape() && logits.size(1) > 0
                                   : labels.rank() == 1 && labels.size(0) == logits.size(0));
  if (!fits) {
    throw ShapeError(fmt::format(
        "[{}] wants logits (N, C) and integer labels (N), or shares of the classes (N, C), got {} "
        "and {}",
        function, to_string(TensorView(logits)), to_string(TensorView(labels))));
  }
  const Tensor host_logits = logits.to(DType::f32).to(Device::cpu());
  const auto classes = size_t(logits.size(1));
  const std::span<const float> values = host_logits.span<float>();
  const std::vector<int64_t> targets = labels_of(labels);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    if (targets[i] >= int64_t(classes)) {
      throw ShapeError(fmt::format("[{}] label {} of sample {} is outside 0..{} ({} classes)",
                                   function, targets[i], i, int64_t(classes) - 1, classes));
    }
    visit(values.subspan(i * classes, classes), size_t(targets[i]));
  }
}

// How many classes come before `label` in the order of falling logits; all of them for NaN.
int64_t rank_of(std::span<const float> logits, size_t label) {
  const float own = logits[label];
  if (own != own) return int64_t(logits.size());
  int64_t rank = 0;
  for (size_t c = 0; c < logits.size(); ++c)
    rank += logits[c] > own || (logits[c] == own && c < label);
  return rank;
}

double ratio(int64_t part, int64_t whole) { return whole ? double(part) / double(whole) : 0; }

}  // namespace

Hits top_k_hits(const Tensor& logits, const Tensor& labels, int64_t k) {
  if (k < 1) throw Error(fmt::format("[top_k_hits] wants k of 1 or more, got {}", k));
  Hits hits;
  for_each_sample("top_k_hits", logits, labels, [&](std::span<const float> values, size_t label) {
    hits.correct += rank_of(values, label) < k;
    ++hits.samples;
  });
  return hits;
}

ConfusionMatrix::ConfusionMatrix(int64_t classes) : classes_(classes) {
  if (classes < 1)
    throw Error(fmt::format("[ConfusionMatrix] wants 1 class or more, got {}", classes));
  counts_.resize(size_t(classes * classes));
}

void ConfusionMatrix::add(const Tensor& logits, const Tensor& labels) {
  if (logits.rank() == 2 && logits.size(1) != classes_) {
    throw ShapeError(fmt::format("[ConfusionMatrix] has {} classes, got logits {}", classes_,
                                 to_string(logits.shape())));
  }
  for_each_sample("ConfusionMatrix", logits, labels,
                  [&](std::span<const float> values, size_t label) {
                    ++counts_[label * size_t(classes_) + largest(values)];
                  });
}

double ConfusionMatrix::accuracy() const {
  int64_t correct = 0, all = 0;
  for (int64_t c = 0; c < classes_; ++c) correct += count(c, c);
  for (const int64_t value : counts_) all += value;
  return ratio(correct, all);
}

double ConfusionMatrix::recall(int64_t label) const {
  int64_t all = 0;
  for (int64_t c = 0; c < classes_; ++c) all += count(label, c);
  return ratio(count(label, label), all);
}

double ConfusionMatrix::precision(int64_t predicted) const {
  int64_t all = 0;
  for (int64_t c = 0; c < classes_; ++c) all += count(c, predicted);
  return ratio(count(predicted, predicted), all);
}

std::string to_string(const ConfusionMatrix& matrix) {
  std::string text = "label \\ predicted";
  for (int64_t c = 0; c < matrix.classes(); ++c) text += fmt::format(" {:>6}", c);
  for (int64_t label = 0; label < matrix.classes(); ++label) {
    text += fmt::format("\n{:>17}", label);
    for (int64_t c = 0; c < matrix.classes(); ++c)
      text += fmt::format(" {:>6}", matrix.count(label, c));
  }
  return text;
}

}  // namespace adret
