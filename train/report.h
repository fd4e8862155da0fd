// What a training run tells about itself.
#pragma once

#include <cstdint>
#include <optional>

namespace adret {

// Of the epoch so far, weighted by samples. Accuracies are there for outputs (N, C) and integer
// targets (N), and for targets (N, C) that are shares of the classes (from mixup, for one), of
// which the largest counts.
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
  double waiting = 0;       // share of the seconds spent waiting for data, in 0..1
  // For losses or gradients that were not finite; with loss scaling, or where the trainer skips.
  std::optional<int64_t> skipped_steps = {};
  // Of all epochs so far: by the metric of best weights, whose weights are then those kept, or else
  // by that of early stopping; false where neither watches.
  bool best = false;
};

struct Evaluation {
  double loss = 0;
  std::optional<double> accuracy = {};
  int64_t samples = 0;
};

}  // namespace adret
