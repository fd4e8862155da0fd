// One step of the optimizers, from one batch or the mean of several.
#pragma once

#include <adret/data/loader.h>
#include <adret/train/statistics.h>
#include <adret/train/step.h>
#include <adret/train/trainer.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace adret {

// Which part of which step a batch is.
struct StepPart {
  int64_t step = 0;   // of the run, from 0
  int64_t batch = 0;  // of the run, from 0
  double weight = 1;  // of the batch's mean in that of the step, by samples
  bool first = true, last = true;
};

// Of the loader's batch `number` in an epoch from 1, when `accumulate` batches make a step; the
// last step of an epoch takes what is left.
StepPart step_part(const DataLoader& loader, int64_t accumulate, int64_t epoch, int64_t number);

class TrainingStep {
 public:
  // `scaler` and `average` may be null. All must outlive this.
  TrainingStep(Module& model, const std::vector<ScheduledOptimizer>& optimizers,
               const TrainerOptions& options, LossScaler* scaler, WeightAverage* average);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // Forward and backward of the batch; if it is the last of its step, the step.
  void run(const Batch& batch, const StepPart& part, Statistics& statistics);
  // Of the batches like the last one.
  const StepReport& report() const { return step_.report(); }

 private:
  // What a batch leaves to be read: outputs and loss, and the norms of clipped gradients.
  struct Results {
    Tensor outputs, loss;
    std::vector<Tensor> norms;
  };
  using Look = std::function<void(const Results&)>;
  // `look` sees the loss before it is walked backwards, and the norms before the weights change.
  Results learn(const Tensor& inputs, const Tensor& targets, const Look& look);
  void update(Results& results, const Look& look);
  void set_rates(int64_t step);
  bool looks_between() const;
  int64_t variant_of(const StepPart& part);

  Module& model_;
  const std::vector<ScheduledOptimizer>& optimizers_;
  const TrainerOptions& options_;
  LossScaler* scaler_;
  WeightAverage* average_;
  StepPart part_;  // of the batch under way
  std::vector<StepPart> variants_;
  Step step_;
};

}  // namespace adret
