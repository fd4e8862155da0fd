// Which epoch was the best, and when to stop waiting for a better one.
#pragma once

#include <adret/train/report.h>

#include <cstdint>
#include <filesystem>
#include <limits>

namespace adret {

// Of the evaluation behind an epoch: a lower loss is better, a higher accuracy.
enum class Metric { test_loss, test_accuracy };
const char* to_string(Metric metric);

// Ends a run after `patience` epochs in a row that did not better the best one by more than
// `min_delta` (Prechelt 1998).
struct EarlyStoppingOptions {
  Metric metric = Metric::test_loss;
  int64_t patience = 5;
  double min_delta = 0;  // in the metric's unit: 0.001 of an accuracy is 0.1 %
};

// Keeps the weights of the best epoch, the earliest of equals, in memory.
struct BestWeightsOptions {
  Metric metric = Metric::test_loss;
  bool restore = true;  // into the model when fit() ends
  // If given, save_weights writes each new best there. fit() begins with CheckpointError when the
  // folder is not there or a file cannot be created in it.
  std::filesystem::path path = {};
};

// The best of the epochs so far.
class BestEpoch {
 public:
  explicit BestEpoch(Metric metric, double min_delta = 0)
      : metric_(metric), min_delta_(min_delta) {}

  // Whether this epoch is better than all before by more than min_delta; NaN never is. Throws Error
  // when the evaluation has no such metric.
  bool add(int64_t epoch, const Evaluation& evaluation);

  int64_t epoch() const { return epoch_; }  // 0: none yet
  int64_t epochs_since() const { return since_; }

 private:
  Metric metric_;
  double min_delta_;
  double best_ = -std::numeric_limits<double>::infinity();  // larger is better
  int64_t epoch_ = 0, since_ = 0;
};

}  // namespace adret
