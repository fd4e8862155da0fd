// One step of the optimizers, from one batch or the mean of several.
#pragma once

#include <adret/data/loader.h>
#include <adret/train/statistics.h>
#include <adret/train/step.h>
#include <adret/train/trainer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adret {

std::vector<Optimizer*> all_of(const std::vector<ScheduledOptimizer>& optimizers);

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
  // What may be null.
  struct Helpers {
    LossScaler* scaler = nullptr;
    StepGuard* guard = nullptr;
    WeightAverage* average = nullptr;
  };
  // All must outlive this.
  TrainingStep(Module& model, const std::vector<ScheduledOptimizer>& optimizers,
               const TrainerOptions& options, const Helpers& helpers);
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // Forward and backward of the batch; if it is the last of its step, the step.
  void run(const Batch& batch, const StepPart& part, Statistics& statistics);
  // Gives up a step whose last batch does not come: puts the buffers back, if they are guarded.
  void abandon() {
    if (with_.guard) with_.guard->abandon();
  }
  // Of the batches like the last one.
  const StepReport& report() const { return step_.report(); }
  // What to say, behind abandon(), of a batch that was not finite, when nothing has changed since
  // the step that it belongs to began: that step is made again under FindNonFinite, up to this
  // batch and but for the optimizers; nothing changes by that either.
  std::string explain(const DataLoader& loader, const NotFinite& found);

 private:
  // What a batch leaves to be read: outputs and loss, and is_finite() of a guard or else, behind
  // the last batch of a step, the norm of clipped gradients.
  struct Results {
    Tensor outputs, loss, is_finite = {}, norm = {};
  };
  using Look = std::function<void(const Results&)>;
  void add(const Batch& batch, const Results& results, const Tensor& targets,
           Statistics& statistics) const;
  Results forward(const Tensor& inputs, const Tensor& targets);
  void backward(const Tensor& loss);
  // `look` sees the loss before it is walked backwards, and the norm before the weights change.
  Results learn(const Tensor& inputs, const Tensor& targets, const Look& look);
  void update(Results& results, const Look& look);
  void set_rates(int64_t step);
  bool is_eager() const;
  int64_t variant_of(const StepPart& part);
  std::string cause(const DataLoader& loader, const NotFinite& found,
                    std::vector<int64_t>& samples);

  Module& model_;
  const std::vector<ScheduledOptimizer>& optimizers_;
  const TrainerOptions& options_;
  Helpers with_;
  StepPart part_;  // of the batch under way
  std::vector<StepPart> variants_;
  Step step_;
};

}  // namespace adret
