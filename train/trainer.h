// The training loop: epochs of steps, evaluation, callbacks.
#pragma once

#include <adret/autograd/ops/loss.h>
#include <adret/data/loader.h>
#include <adret/layers/module.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/lr_schedule.h>
#include <adret/optim/optimizer.h>
#include <adret/optim/step_guard.h>
#include <adret/train/early_stopping.h>
#include <adret/train/progress.h>
#include <adret/train/report.h>
#include <adret/train/step.h>
#include <adret/train/weight_average.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace adret {

// The mean over a batch, a scalar.
using LossFunction = std::function<Tensor(const Tensor& outputs, const Tensor& targets)>;

// What becomes of a step whose loss or gradients are not finite.
enum class NonFinite {
  // It changes nothing, nor do the steps behind it until the host sees it. Then it is made again
  // under FindNonFinite, and an Error names the function and module where that began which reached
  // the loss or a gradient, the learning rates and the batch's samples.
  stop,
  skip,  // it changes nothing, is counted, and training goes on
  // An Error, from the loss and, when clipping, the norm of the gradients alone. What is found
  // late, on devices other than the CPU, has changed the weights by then.
  unguarded
};

struct TrainerOptions {
  int64_t epochs = 1;
  // Above 1 to go on with a run: orders, rates and dropout are those of its remaining epochs.
  int64_t first_epoch = 1;
  // Batches that make one step, from the mean of their gradients weighted by samples, which add up
  // in the weights' dtype; the last step of an epoch takes what is left. Schedules count steps.
  int64_t accumulate = 1;
  LrSchedule schedule = {};  // of the step from 0; unset: the optimizer's rates stay
  double clip_norm = 0;      // of all gradients together; 0: no clipping
  // For f16: steps whose gradients are not finite are skipped and counted, not an error, whatever
  // non_finite says; a loss that is not is an error as when unguarded.
  std::optional<LossScaleOptions> loss_scale = {};
  // Guarded steps read all gradients once more (StepGuard).
  NonFinite non_finite = NonFinite::stop;
  // Of labels (N), or shares of the classes (N, C). With label smoothing:
  //   [](const Tensor& x, const Tensor& y) {
  //     return cross_entropy(x, y, {.label_smoothing = 0.1});
  //   }
  LossFunction loss = [](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels);
  };
  // Averages the weights; what is evaluated behind an epoch, and kept as best, are the averages. A
  // uniform average takes the weights at the end of each epoch from `average_from` on, and batch
  // norms take their statistics from the training set before it is evaluated (update_batch_norm);
  // until then the weights are evaluated as they are.
  std::optional<WeightAverageOptions> average = {};
  int64_t average_from = 1;
  std::optional<EarlyStoppingOptions> early_stopping = {};
  std::optional<BestWeightsOptions> best_weights = {};
  // How steps are made. Automatic: on the CPU eagerly, elsewhere replayed (Note [Replayed steps])
  // where that can be; Trainer::step_report tells.
  StepMode mode = StepMode::automatic;
  std::function<double()> clock = steady_seconds;
};

struct TrainerCallbacks {
  std::function<void(int64_t epoch)> on_epoch_begin = {};
  std::function<void(const BatchReport&)> on_batch_end = {};
  std::function<void(const EpochReport&)> on_epoch_end = {};  // after the evaluation
};

class TrainingStep;

// One of the optimizers that share a model's parameters, as Muon for the convolutions and Sgd for
// the rest.
struct ScheduledOptimizer {
  Optimizer& optimizer;
  LrSchedule schedule = {};  // of the step from 0; unset: its rates stay
};

// Trainer trainer(model, optimizer, {.epochs = 5});
// trainer.fit(train_loader, test_loader);
class Trainer {
 public:
  // Model and optimizers must outlive the trainer. Throws Error for options out of range.
  Trainer(Module& model, Optimizer& optimizer, TrainerOptions options = {});
  // Steps are made in the order of the list:
  //   Trainer trainer(model, {{sgd, cosine_lr(...)}, {muon, cosine_lr(...)}}, {.epochs = 5});
  // Throws Error for an empty list and for an optimizer that is there twice; for a schedule in the
  // options, since each optimizer has its own; for a loss_scale, which is one optimizer's, with
  // more than one.
  Trainer(Module& model, std::vector<ScheduledOptimizer> optimizers, TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Trains, evaluating after each epoch when there is a validation set; returns all epochs'
  // reports. Random numbers of a step depend on the seed and the step alone, so validation changes
  // nothing. A model in evaluation is set to training; layers put into evaluation by themselves
  // stay so. The model ends with its own weights, or the best ones if they are to be restored.
  // Throws Error naming epoch and batch for a loss or gradients that are not finite (NonFinite),
  // after which one may go on; for early stopping or best weights without a validation set; when a
  // whole epoch was skipped, with loss scaling at its lowest scale; CheckpointError when best
  // weights cannot be saved; and what the loader and the model throw.
  std::vector<EpochReport> fit(const DataLoader& train, const TrainerCallbacks& callbacks = {});
  std::vector<EpochReport> fit(const DataLoader& train, const DataLoader& validation,
                               const TrainerCallbacks& callbacks = {});
  // Mean loss and accuracy of the model as it is, without gradients, in evaluation mode; restores
  // every layer's mode. Of the averages:
  //   const AveragedWeights averaged(*trainer.average());
  //   trainer.evaluate(loader);
  Evaluation evaluate(const DataLoader& loader);

  // Ends fit() after the epoch that runs; for callbacks.
  void stop() { stopping_ = true; }

  WeightAverage* average() { return average_ ? &*average_ : nullptr; }  // null without
  LossScaler* loss_scaler() { return scaler_ ? &*scaler_ : nullptr; }   // null without
  // Of batches like the last one that was trained.
  const StepReport& step_report() const;

 private:
  std::vector<EpochReport> run(const DataLoader& train, const DataLoader* validation,
                               const TrainerCallbacks& callbacks);
  EpochReport train_epoch(const DataLoader& loader, int64_t epoch,
                          const TrainerCallbacks& callbacks);
  EpochReport make_steps(const DataLoader& loader, int64_t epoch,
                         const TrainerCallbacks& callbacks);
  void count_skipped(EpochReport& report, const LossScaleState& before, int64_t steps) const;
  StepGuard* guard() { return guard_ ? &*guard_ : nullptr; }
  void judge(const DataLoader& train, const DataLoader& validation, EpochReport& report);
  bool averages_epochs() const { return options_.average && options_.average->uniform; }
  void keep_best(EpochReport& report);

  Module& model_;
  TrainerOptions options_;
  std::vector<ScheduledOptimizer> optimizers_;
  std::optional<LossScaler> scaler_;
  std::optional<StepGuard> guard_;
  std::optional<WeightAverage> average_;
  std::optional<BestEpoch> patience_, best_;  // of early stopping, of the weights
  std::unique_ptr<Snapshot> best_weights_;
  std::unique_ptr<TrainingStep> step_;
  bool stopping_ = false;
};

}  // namespace adret
