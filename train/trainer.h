// The training loop: epochs of steps, evaluation, callbacks.
#pragma once

#include <adret/autograd/ops/loss.h>
#include <adret/data/loader.h>
#include <adret/layers/module.h>
#include <adret/optim/lr_schedule.h>
#include <adret/optim/optimizer.h>
#include <adret/train/progress.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace adret {

// The mean over a batch, a scalar.
using LossFunction = std::function<Tensor(const Tensor& outputs, const Tensor& targets)>;

struct TrainerOptions {
  int64_t epochs = 1;
  // Above 1 to go on with a run: orders, rates and dropout are those of its remaining epochs.
  int64_t first_epoch = 1;
  LrSchedule schedule = {};  // of the step from 0; unset: the optimizer's rates stay
  double clip_norm = 0;      // of all gradients together; 0: no clipping
  LossFunction loss = [](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels);
  };
  std::function<double()> clock = steady_seconds;
};

// Of the epoch so far, weighted by samples. Accuracies are there for integer targets (N) and
// outputs (N, C).
struct BatchReport {
  int64_t epoch = 0, epochs = 0;   // from 1
  int64_t batch = 0, batches = 0;  // from 0
  int64_t samples = 0, samples_of_epoch = 0;
  double loss = 0;
  std::optional<double> accuracy = {};
};

struct EpochReport {
  int64_t epoch = 0;  // from 1
  double train_loss = 0;
  std::optional<double> train_accuracy = {};
  std::optional<double> test_loss = {}, test_accuracy = {};
  double images_per_s = 0;  // of training
  double seconds = 0;       // of training, without the evaluation
};

struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy = {};
  int64_t samples = 0;
};

struct TrainerCallbacks {
  std::function<void(int64_t epoch)> on_epoch_begin = {};
  std::function<void(const BatchReport&)> on_batch_end = {};
  std::function<void(const EpochReport&)> on_epoch_end = {};  // after the evaluation
};

// Trainer trainer(model, optimizer, {.epochs = 5});
// trainer.fit(train_loader, test_loader);
class Trainer {
 public:
  // Model and optimizer must outlive the trainer. Throws Error for options out of range.
  Trainer(Module& model, Optimizer& optimizer, TrainerOptions options = {});

  // Trains, evaluating after each epoch when there is a validation set; returns all epochs'
  // reports. Random numbers of a step depend on the seed and the step alone, so validation changes
  // nothing. A model in evaluation is set to training; layers put into evaluation by themselves
  // stay so. Throws Error naming epoch and batch for a loss or a norm of the gradients that is not
  // finite, before the step is made on the CPU; and what the loader and the model throw.
  std::vector<EpochReport> fit(const DataLoader& train, const TrainerCallbacks& callbacks = {});
  std::vector<EpochReport> fit(const DataLoader& train, const DataLoader& validation,
                               const TrainerCallbacks& callbacks = {});
  // Mean loss and accuracy without gradients, in evaluation mode; restores every layer's mode.
  Evaluation evaluate(const DataLoader& loader);

  // Ends fit() after the epoch that runs; for callbacks.
  void stop() { stopping_ = true; }

 private:
  class Statistics;
  std::vector<EpochReport> run(const DataLoader& train, const DataLoader* validation,
                               const TrainerCallbacks& callbacks);
  EpochReport train_epoch(const DataLoader& loader, int64_t epoch,
                          const TrainerCallbacks& callbacks);
  void train_step(const Batch& batch, int64_t step, Statistics& statistics);

  Module& model_;
  Optimizer& optimizer_;
  TrainerOptions options_;
  bool stopping_ = false;
};

}  // namespace adret
