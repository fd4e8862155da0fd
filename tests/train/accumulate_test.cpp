// Several batches to a step; shares of classes as targets; the time spent waiting for data.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/linear.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using testing::ElementsAre;

struct Scale : Layer<Scale> {
  Parameter& weight = parameter("weight", Tensor::ones({1}));
  Tensor forward(const Tensor& x) { return x * weight.value; }
};

struct Net : Layer<Net> {
  Linear& hidden = add("hidden", Linear(3, 8, {.activation = Activation::gelu}));
  Linear& last = add("last", Linear(8, 4));
  Tensor forward(const Tensor& x) { return last(hidden(x)); }
};

Tensor mean_of_outputs(const Tensor& outputs, const Tensor&) { return mean(outputs); }

TensorDataset column(const std::vector<float>& values) {
  const auto n = int64_t(values.size());
  return TensorDataset(Tensor::from(values, {n, 1}), Tensor::zeros({n, 1}));
}

// 96 points and four classes.
TensorDataset points(DType dtype) {
  std::vector<float> values;
  std::vector<int32_t> labels;
  for (uint32_t i = 0; i < 96; ++i) {
    const auto bits = philox({i, 0, 0, 0}, {3, 4});
    for (uint32_t k = 0; k < 3; ++k) values.push_back(float(bits[k]) / 4294967296.0f - 0.5f);
    labels.push_back(int32_t(bits[0] >> 31) + 2 * int32_t(bits[1] >> 31));
  }
  return TensorDataset(Tensor::from(values, {96, 3}).to(dtype), Tensor::from(labels, {96}), 4);
}

struct Outcome {
  std::vector<double> weights, losses;
};

Outcome train(DType dtype, int64_t batch_size, int64_t accumulate,
              const LrSchedule& schedule = {}) {
  random::manual_seed(4);
  Net model;
  model.to(dtype);
  Sgd optimizer(model, {.lr = 0.1, .momentum = 0.9});
  const DataLoader loader(points(dtype), {.batch_size = batch_size, .shuffle = true, .seed = 1});
  Trainer trainer(model, optimizer,
                  {.epochs = 3, .accumulate = accumulate, .schedule = schedule, .clip_norm = 0.3});
  Outcome outcome;
  for (const EpochReport& report : trainer.fit(loader)) outcome.losses.push_back(report.train_loss);
  for (const auto& parameter : model.parameters()) {
    const auto values = parameter->value.to(DType::f64).to_vector<double>();
    outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
  }
  return outcome;
}

// 9 batches of 10 and one of 6 make steps of 40, 40 and 16, of which the last has unequal batches;
// 12 batches of 8 steps of 40, 40 and 16, of which the last has 2 of 5 batches.
TEST(Accumulate, StepsAsOneLargeBatch) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-6;
    const Outcome large = train(dtype, 40, 1);
    for (const auto& [batch_size, accumulate] : {std::pair<int64_t, int64_t>{10, 4}, {8, 5}}) {
      const Outcome parts = train(dtype, batch_size, accumulate);
      ASSERT_EQ(parts.weights.size(), large.weights.size());
      for (size_t i = 0; i < large.weights.size(); ++i) {
        EXPECT_NEAR(parts.weights[i], large.weights[i], tolerance) << i;
      }
      for (size_t epoch = 0; epoch < 3; ++epoch) {
        EXPECT_NEAR(parts.losses[epoch], large.losses[epoch], 10 * tolerance) << epoch;
      }
    }
  }
}

TEST(Accumulate, WeightsBatchesBySamplesAndReportsTheirOwnLosses) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  // The gradient of mean(w x) is the mean of x: (12 + 8 + 9) / 3 for batches of two and one.
  const DataLoader loader(column({12, 8, 9}), {.batch_size = 2});
  std::vector<double> losses;
  Trainer(model, optimizer, {.accumulate = 2, .loss = mean_of_outputs})
      .fit(loader,
           {.on_batch_end = [&](const BatchReport& report) { losses.push_back(report.loss); }});
  EXPECT_NEAR(model.weight.value.item(), 1 - 29.0 / 3, 1e-5);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NEAR(losses[0], 10, 1e-6);
  EXPECT_NEAR(losses[1], 29.0 / 3, 1e-6);  // of both batches, with the first weight
}

TEST(Accumulate, SchedulesCountSteps) {
  std::vector<int64_t> steps;
  train(DType::f32, 10, 4, [&](int64_t step) {
    steps.push_back(step);
    return 0.1;
  });
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Accumulate, RefusesNoBatches) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  EXPECT_EQ(thrown<Error>([&] { Trainer(model, optimizer, {.accumulate = 0}); }),
            "[Trainer] accumulate is 0; a step takes at least 1 batch");
}

// Two classes whose logits are the inputs; shares of 0.75 and 0.25.
TEST(SoftTargets, AreTrainedOnAndCountedByTheirLargestShare) {
  Scale model;
  Sgd optimizer(model, {.lr = 1e-30});
  const Tensor inputs = Tensor::from<float>({2, 0, 0, 2, 1, 0}, {3, 2}),
               shares = Tensor::from<float>({0.75, 0.25, 0.75, 0.25, 0, 1}, {3, 2});
  const auto soften = [&](Batch& batch) {
    batch.targets = slice(shares, 0, batch.indices.front(), batch.indices.back() + 1);
  };
  const TensorDataset dataset(inputs, Tensor::from<int32_t>({0, 0, 1}, {3}), 2);
  const DataLoader loader(dataset, {.batch_size = 2, .transform = soften});
  Trainer trainer(model, optimizer);
  const EpochReport report = trainer.fit(loader, loader).front();
  // -(0.75 log p + 0.25 log (1 - p)) with p = sigmoid(2) and sigmoid(-2), then -log sigmoid(-1).
  const auto log_p = [](double x) { return -std::log1p(std::exp(-x)); };
  const double expected =
      -(0.75 * log_p(2) + 0.25 * log_p(-2) + 0.75 * log_p(-2) + 0.25 * log_p(2) + log_p(-1)) / 3;
  EXPECT_NEAR(report.train_loss, expected, 1e-6);
  EXPECT_NEAR(*report.train_accuracy, 1.0 / 3, 1e-12);
  EXPECT_NEAR(*report.test_accuracy, 1.0 / 3, 1e-12);
}

// The data set has no classes: targets of the outputs' shape are just numbers.
TEST(SoftTargets, AreNoSharesInARegression) {
  Scale model;
  Sgd optimizer(model, {.lr = 1e-30});
  const DataLoader loader(TensorDataset(Tensor::ones({4, 2}), Tensor::zeros({4, 2})));
  const auto loss = [](const Tensor& outputs, const Tensor& targets) {
    return mse_loss(outputs, targets);
  };
  const EpochReport report = Trainer(model, optimizer, {.loss = loss}).fit(loader).front();
  EXPECT_NEAR(report.train_loss, 1, 1e-6);
  EXPECT_FALSE(report.train_accuracy.has_value());
}

TEST(Waiting, IsTheShareOfTheTimeUntilBatchesCame) {
  Scale model;
  Sgd optimizer(model, {.lr = 1e-30});
  double now = 0;
  const auto clock = [&] { return now; };
  const DataLoader loader(
      column({1, 2, 3, 4}),
      {.batch_size = 1, .transform = [&](Batch&) { now += 0.5; }, .clock = clock});
  Trainer trainer(model, optimizer, {.loss = mean_of_outputs, .clock = clock});
  const EpochReport report =
      trainer.fit(loader, {.on_batch_end = [&](const BatchReport&) { now += 1.5; }}).front();
  EXPECT_DOUBLE_EQ(report.seconds, 8);
  EXPECT_DOUBLE_EQ(report.waiting, 0.25);
}

}  // namespace
}  // namespace adret
