// One step of the optimizers, from one batch or the mean of several.
#pragma once

#include <adret/data/loader.h>
#include <adret/train/statistics.h>
#include <adret/train/trainer.h>

#include <cstdint>
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
               const TrainerOptions& options, LossScaler* scaler, WeightAverage* average)
      : model_(model),
        optimizers_(optimizers),
        options_(options),
        scaler_(scaler),
        average_(average) {}

  // Forward and backward of the batch; if it is the last of its step, the step.
  void run(const Batch& batch, const StepPart& part, Statistics& statistics);

 private:
  void update(const Batch& batch, int64_t step, Statistics& statistics);

  Module& model_;
  const std::vector<ScheduledOptimizer>& optimizers_;
  const TrainerOptions& options_;
  LossScaler* scaler_;
  WeightAverage* average_;
};

}  // namespace adret
