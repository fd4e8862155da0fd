// Whole trainings with replayed steps give the bits of eager ones.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/hashed.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

TensorDataset points(int64_t count) {
  const Tensor x = Tensor::from(hashed_unit("points", 2 * count), {count, 2}).to(DType::f32);
  std::vector<int32_t> labels;
  const std::vector<float> values = x.to_vector();
  for (size_t i = 0; i < size_t(count); ++i) {
    labels.push_back(int32_t(values[2 * i] > 0) + 2 * int32_t(values[2 * i + 1] > 0));
  }
  return TensorDataset(x, Tensor::from(labels, {count}), 4);
}

struct Result {
  std::vector<float> weights;
  std::vector<double> losses;
  StepReport report;
};

Result train(TrainerOptions options, StepMode mode, int64_t samples = 96) {
  random::manual_seed(9);
  Sequential model(Linear(2, 16), ReLU(), Dropout(0.2), Linear(16, 4));
  Sgd optimizer(model, {.lr = 0.2, .momentum = 0.9});
  options.mode = mode;
  options.epochs = 4;
  Trainer trainer(model, optimizer, options);
  const DataLoader loader(points(samples), {.batch_size = 16, .shuffle = true});
  Result result;
  for (const EpochReport& report : trainer.fit(loader, loader)) {
    result.losses.insert(result.losses.end(), {report.train_loss, *report.test_loss});
  }
  for (const auto& parameter : model.parameters()) {
    const std::vector<float> values = parameter->value.to_vector();
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  result.report = trainer.step_report();
  return result;
}

void expect_equal(const TrainerOptions& options) {
  const Result eager = train(options, StepMode::eager), graph = train(options, StepMode::graph);
  expect_as_eager(graph.weights, eager.weights);
  expect_as_eager(graph.losses, eager.losses);
  EXPECT_EQ(eager.report.calls, 0);
  EXPECT_GT(graph.report.replays, 0) << graph.report.reason;
}

TEST(ReplayedTrainer, ComputesWhatEagerStepsDo) {
  expect_equal({});
  expect_equal({.schedule = one_cycle_lr({.max_lr = 0.3, .steps = 28})});
  expect_equal({.clip_norm = 0.5});
  expect_equal({.average = WeightAverageOptions{.decay = 0.9}});
}

TEST(ReplayedTrainer, AccumulatesInReplays) {
  // Seven batches, the last of which is smaller, make two steps of three and one of one.
  const TrainerOptions options{.accumulate = 3, .clip_norm = 1};
  const Result eager = train(options, StepMode::eager, 100),
               graph = train(options, StepMode::graph, 100);
  expect_as_eager(graph.weights, eager.weights);
  expect_as_eager(graph.losses, eager.losses);
}

TEST(ReplayedTrainer, OnTheCpuItIsAskedFor) {
  EXPECT_EQ(train({}, StepMode::automatic).report.calls, 0);
}

TEST(ReplayedTrainer, NamesWhatCannotBeReplayed) {
  const auto reads = [](const Tensor& outputs, const Tensor&) {
    const Tensor loss = mean(outputs * outputs);
    return loss * (loss.item() > 1 ? 0.5 : 1.0);
  };
  EXPECT_THAT(thrown<Error>([&] { train({.loss = reads}, StepMode::graph); }),
              HasSubstr("[step] the step cannot be replayed: it reads 4 bytes on the host in fit"));
}

TEST(ReplayedTrainer, FindsLossesThatAreNotFinite) {
  const auto infinite = [](const Tensor& outputs, const Tensor&) {
    return mean(outputs) * std::numeric_limits<double>::infinity();
  };
  EXPECT_THAT(thrown<Error>([&] { train({.loss = infinite}, StepMode::graph); }),
              HasSubstr("in epoch 1, batch 0"));
}

}  // namespace
}  // namespace adret
