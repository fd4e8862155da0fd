// Figures of merit, weighted by samples: mean, accuracy, top-k, confusion matrix.
#pragma once

#include <adret/core/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace adret {

// A mean over samples of values that are means over batches: batches of 2 and 1 with 10 and 9 give
// 9.667.
class Mean {
 public:
  void add(double value, int64_t samples) {
    sum_ += value * double(samples);
    samples_ += samples;
  }
  double value() const { return samples_ ? sum_ / double(samples_) : 0; }
  int64_t samples() const { return samples_; }

 private:
  double sum_ = 0;
  int64_t samples_ = 0;
};

struct Hits {
  int64_t correct = 0;
  int64_t samples = 0;  // with a label; negative ones are ignored

  double rate() const { return samples ? double(correct) / double(samples) : 0; }
};

// Samples whose label is among the k largest logits (N, C); labels (N) i32 or i64, or floating
// shares of the classes (N, C), of which the largest is the label. Of equal numbers the lower class
// counts as larger; a label whose logit is NaN is missed. Throws ShapeError for other shapes and
// for a label above C-1, Error for k below 1.
Hits top_k_hits(const Tensor& logits, const Tensor& labels, int64_t k = 1);

// How often each class was taken for each.
class ConfusionMatrix {
 public:
  // Throws Error below 1 class.
  explicit ConfusionMatrix(int64_t classes);
  // Counts samples as top_k_hits does; throws like it.
  void add(const Tensor& logits, const Tensor& labels);

  int64_t classes() const { return classes_; }
  int64_t count(int64_t label, int64_t predicted) const {
    return counts_[size_t(label * classes_ + predicted)];
  }
  double accuracy() const;
  // Of the samples of a class, the part found; of those taken for it, the part that was right. 0
  // where there are none.
  double recall(int64_t label) const;
  double precision(int64_t predicted) const;

 private:
  int64_t classes_;
  std::vector<int64_t> counts_;  // (label, predicted)
};

// A table with a row for each label.
std::string to_string(const ConfusionMatrix& matrix);

}  // namespace adret
