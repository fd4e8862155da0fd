// Comparing epochs.
#include <adret/core/error.h>
#include <adret/train/early_stopping.h>

namespace adret {

const char* to_string(Metric metric) {
  return metric == Metric::test_loss ? "test_loss" : "test_accuracy";
}

bool BestEpoch::add(int64_t epoch, const Evaluation& evaluation) {
  if (metric_ == Metric::test_accuracy && !evaluation.accuracy) {
    throw Error(
        "[fit] the evaluation has no accuracy to compare epochs by, as outputs and targets are not "
        "those of a classification; use Metric::test_loss");
  }
  const double value = metric_ == Metric::test_loss ? -evaluation.loss : *evaluation.accuracy;
  ++since_;
  const bool better = epoch_ == 0 ? value == value : value > best_ + min_delta_;
  if (!better) return false;
  best_ = value;
  epoch_ = epoch;
  since_ = 0;
  return true;
}

}  // namespace adret
