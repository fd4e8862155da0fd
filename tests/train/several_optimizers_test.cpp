// A trainer of several optimizers: the weights of one, schedules of their own, averages, errors.
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
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/state_bytes.h"

namespace adret {
namespace {

using namespace test;

using Group = ParameterGroup<SgdOptions>;

// outputs = (left + right) * inputs, both 1 at first.
struct Pair : Layer<Pair> {
  Parameter& left = parameter("left", Tensor::ones({1}));
  Parameter& right = parameter("right", Tensor::ones({1}));
  Tensor forward(const Tensor& x) { return x * left.value + x * right.value; }
};

// A pair with an optimizer for each, which differ in the rate.
struct TwoOptimizers {
  Pair model;
  Sgd left{std::vector<Group>{{{model.left.shared_from_this()}, {.lr = 1}}}};
  Sgd right{std::vector<Group>{{{model.right.shared_from_this()}, {.lr = 10}}}};
  std::vector<ScheduledOptimizer> list() { return {{left}, {right}}; }
};

Tensor mean_of_outputs(const Tensor& outputs, const Tensor&) { return mean(outputs); }

// Batches of one, whose gradients are 1, 2 and 3 for either weight.
DataLoader one_two_three() {
  const Tensor inputs = Tensor::from<float>({1, 2, 3}, {3, 1});
  return DataLoader(TensorDataset(inputs, Tensor::zeros({3, 1})), {.batch_size = 1});
}

double next_number(int64_t step) { return double(step + 1); }

// 96 points and two classes.
TensorDataset points() {
  std::vector<float> values;
  std::vector<int32_t> labels;
  for (uint32_t i = 0; i < 96; ++i) {
    const auto bits = philox({i, 0, 0, 0}, {5, 6});
    for (uint32_t k = 0; k < 2; ++k) values.push_back(float(bits[k]) / 4294967296.0f - 0.5f);
    labels.push_back(int32_t(bits[0] >> 31));
  }
  return TensorDataset(Tensor::from(values, {96, 2}), Tensor::from(labels, {96}), 2);
}

// The weights, then their averages, after three epochs.
std::vector<float> train_points(bool apart, int64_t accumulate) {
  random::manual_seed(3);
  Sequential model(Linear(2, 16), ReLU(), Dropout(0.2), Linear(16, 2));
  std::vector<Group> groups = {{{}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}},
                               {{}, {.lr = 0.03, .momentum = 0.5, .nesterov = true}}};
  for (const auto& parameter : model.parameters()) {
    groups[parameter->value.rank() > 1 ? 0 : 1].parameters.push_back(parameter);
  }
  std::vector<std::unique_ptr<Sgd>> optimizers;
  if (apart) {
    for (const Group& group : groups) {
      optimizers.push_back(std::make_unique<Sgd>(std::vector<Group>{group}));
    }
  } else {
    optimizers.push_back(std::make_unique<Sgd>(groups));
  }
  std::vector<ScheduledOptimizer> list;
  for (const auto& optimizer : optimizers) list.push_back({*optimizer});
  Trainer trainer(
      model, list,
      {.epochs = 3, .accumulate = accumulate, .average = WeightAverageOptions{.decay = 0.9}});
  trainer.fit(DataLoader(points(), {.batch_size = 10, .shuffle = true}));
  std::vector<float> weights = all_weights(model);
  const AveragedWeights averaged(*trainer.average());
  const std::vector<float> averages = all_weights(model);
  weights.insert(weights.end(), averages.begin(), averages.end());
  return weights;
}

TEST(SeveralOptimizers, TrainTheVeryWeightsOfOneWithAsManyGroups) {
  for (const int64_t accumulate : {1, 4}) {
    EXPECT_EQ(train_points(true, accumulate), train_points(false, accumulate)) << accumulate;
  }
}

TEST(SeveralOptimizers, FollowTheirOwnSchedulesAndRates) {
  TwoOptimizers two;
  Trainer(two.model, {{two.left, next_number}, {two.right}}, {.loss = mean_of_outputs})
      .fit(one_two_three());
  EXPECT_EQ(two.model.left.value.item(), 1 - 1 * 1 - 2 * 2 - 3 * 3);
  EXPECT_EQ(two.model.right.value.item(), 1 - 10 * (1 + 2 + 3));
}

TEST(SeveralOptimizers, StepTogetherAfterSeveralBatches) {
  TwoOptimizers two;
  Trainer(two.model, {{two.left, next_number}, {two.right}},
          {.accumulate = 2, .loss = mean_of_outputs})
      .fit(one_two_three());
  EXPECT_EQ(two.model.left.value.item(), 1 - 1 * 1.5 - 2 * 3);
  EXPECT_EQ(two.model.right.value.item(), 1 - 10 * (1.5 + 3));
}

// Weights of 0, -2 and -5, and of -9, -29 and -59, each halving the way from the average.
TEST(SeveralOptimizers, AreAveragedAll) {
  TwoOptimizers two;
  Trainer trainer(
      two.model, two.list(),
      {.loss = mean_of_outputs, .average = WeightAverageOptions{.decay = 0.5, .warm_up = false}});
  trainer.fit(one_two_three());
  const AveragedWeights averaged(*trainer.average());
  EXPECT_EQ(two.model.left.value.item(), ((1 + 0) / 2.0 - 2) / 4 - 5 / 2.0);
  EXPECT_EQ(two.model.right.value.item(), ((1 - 9) / 2.0 - 29) / 4 - 59 / 2.0);
}

TEST(SeveralOptimizers, RefuseALossScale) {
  TwoOptimizers two;
  EXPECT_EQ(
      thrown<Error>([&] { Trainer(two.model, two.list(), {.loss_scale = LossScaleOptions()}); }),
      "[Trainer] loss_scale wants the gradients of all parameters in one optimizer, got 2 "
      "optimizers; use one with several groups, or train in bf16");
}

// By the norm of all gradients together, guarded or not.
TEST(SeveralOptimizers, ClipByOneNorm) {
  for (const NonFinite non_finite : {NonFinite::stop, NonFinite::unguarded}) {
    for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
      TwoOptimizers two;
      Trainer(two.model, two.list(),
              {.clip_norm = 1e-3, .non_finite = non_finite, .loss = mean_of_outputs, .mode = mode})
          .fit(one_two_three());
      // Gradients (g, g) become (1, 1) / 1000 / sqrt(2), and the rates are 1 and 10.
      EXPECT_NEAR(two.model.left.value.item(), 1 - 3 * 1e-3 * 0.70710678, 1e-6);
      EXPECT_NEAR(two.model.right.value.item(), 1 - 30 * 1e-3 * 0.70710678, 1e-5);
    }
  }
}

TEST(SeveralOptimizers, MayBeOneWithItsGradientsClipped) {
  Pair model;
  Sgd optimizer(model, {.lr = 1});
  Trainer(model, {{optimizer, next_number}}, {.clip_norm = 1e-3, .loss = mean_of_outputs})
      .fit(one_two_three());
  // Gradients (g, g) become (1, 1) / 1000 / sqrt(2).
  EXPECT_NEAR(model.left.value.item(), 1 - (1 + 2 + 3) * 1e-3 * 0.70710678, 1e-6);
}

TEST(SeveralOptimizers, RefuseAnEmptyListOneNamedTwiceAndAScheduleInTheOptions) {
  TwoOptimizers two;
  EXPECT_EQ(thrown<Error>([&] { Trainer(two.model, std::vector<ScheduledOptimizer>()); }),
            "[Trainer] the list of optimizers is empty; give at least one");
  const std::vector<ScheduledOptimizer> twice{two.list()[0], two.list()[0]};
  EXPECT_EQ(thrown<Error>([&] { Trainer(two.model, twice, {.non_finite = NonFinite::unguarded}); }),
            "[Trainer] optimizers 0 and 1 are the same; name each once");
  EXPECT_EQ(
      thrown<Error>([&] { Trainer(two.model, two.list(), {.schedule = constant_lr(0.1)}); }),
      "[Trainer] the options have a schedule beside a list of optimizers, each of which has its "
      "own; put it into the list");
}

}  // namespace
}  // namespace adret
