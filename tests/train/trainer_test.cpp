// The training loop: weighting, repeatability, modes, errors, callbacks.
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

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/state_bytes.h"

namespace adret {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

// One weight, 1 at first: outputs = weight * inputs.
struct Scale : Layer<Scale> {
  Parameter& weight = parameter("weight", Tensor::ones({1}));
  Tensor forward(const Tensor& x) { return x * weight.value; }
};

Tensor mean_of_outputs(const Tensor& outputs, const Tensor&) { return mean(outputs); }
Tensor sum_of_outputs(const Tensor& outputs, const Tensor&) { return sum(outputs); }

TensorDataset column(const std::vector<float>& values) {
  const auto n = int64_t(values.size());
  return TensorDataset(Tensor::from(values, {n, 1}), Tensor::zeros({n, 1}));
}

float weight_of(const Scale& model) { return model.weight.value.item(); }

// 96 points of four classes by the quadrant of (x, y), drawn from one seed.
TensorDataset quadrants() {
  std::vector<float> points;
  std::vector<int32_t> labels;
  for (uint32_t i = 0; i < 96; ++i) {
    const auto bits = philox({i, 0, 0, 0}, {7, 7});
    const float x = float(bits[0]) / 4294967296.0f - 0.5f,
                y = float(bits[1]) / 4294967296.0f - 0.5f;
    points.insert(points.end(), {x, y});
    labels.push_back(int32_t(x > 0) + 2 * int32_t(y > 0));
  }
  return TensorDataset(Tensor::from(points, {96, 2}), Tensor::from(labels, {96}), 4);
}

Sequential classifier() { return Sequential(Linear(2, 16), ReLU(), Dropout(0.2), Linear(16, 4)); }

// The weights after three epochs from one seed.
std::vector<float> train_quadrants(int workers, bool validate) {
  random::manual_seed(3);
  Sequential model = classifier();
  Sgd optimizer(model, {.lr = 0.1, .momentum = 0.9});
  const DataLoader loader(quadrants(), {.batch_size = 10, .shuffle = true, .workers = workers});
  const DataLoader validation(quadrants(), {.batch_size = 17, .shuffle = true, .workers = workers});
  Trainer trainer(model, optimizer, {.epochs = 3});
  if (validate)
    trainer.fit(loader, validation);
  else
    trainer.fit(loader);
  return all_weights(model);
}

TEST(Trainer, LearnsAndReportsEveryEpoch) {
  random::manual_seed(1);
  Sequential model = classifier();
  Sgd optimizer(model, {.lr = 0.2, .momentum = 0.9});
  const DataLoader loader(quadrants(), {.batch_size = 8, .shuffle = true});
  const auto reports = Trainer(model, optimizer, {.epochs = 30}).fit(loader, loader);
  ASSERT_EQ(reports.size(), 30);
  EXPECT_EQ(reports.back().epoch, 30);
  EXPECT_NEAR(reports.front().train_loss, std::log(4), 0.2);  // chance, at first
  EXPECT_GT(*reports.back().test_accuracy, 0.95);
  EXPECT_LT(*reports.back().test_loss, 0.2);
  EXPECT_LT(reports.back().train_loss, reports.front().train_loss);
}

TEST(Trainer, SameSeedSameBitsForAnyNumberOfWorkersWithAndWithoutValidation) {
  const auto weights = train_quadrants(0, false);
  EXPECT_EQ(train_quadrants(0, true), weights);
  EXPECT_EQ(train_quadrants(1, false), weights);
  EXPECT_EQ(train_quadrants(3, true), weights);
}

TEST(Trainer, WeightsTheEpochsLossBySamples) {
  Scale model;
  Sgd optimizer(model, {.lr = 1e-30});
  const DataLoader loader(column({12, 8, 9}), {.batch_size = 2});  // means 10 of two and 9 of one
  Trainer trainer(model, optimizer, {.loss = mean_of_outputs});
  const EpochReport report = trainer.fit(loader).front();
  EXPECT_NEAR(report.train_loss, 29.0 / 3, 1e-6);
  EXPECT_FALSE(report.train_accuracy.has_value());
  EXPECT_FALSE(report.test_loss.has_value());
  const Evaluation evaluation = trainer.evaluate(loader);
  EXPECT_NEAR(evaluation.loss, 29.0 / 3, 1e-6);
  EXPECT_EQ(evaluation.samples, 3);
}

TEST(Trainer, WeightsTheAccuracyBySamples) {
  Scale model;
  Sgd optimizer(model, {.lr = 1e-30});
  // Taken for 0, 1, 1; the labels are 0, 0, 1: right, wrong | right.
  const TensorDataset dataset(Tensor::from<float>({1, 0, 0, 1, 0, 1}, {3, 2}),
                              Tensor::from<int32_t>({0, 0, 1}, {3}), 2);
  Trainer trainer(model, optimizer);
  EXPECT_NEAR(*trainer.fit(DataLoader(dataset, {.batch_size = 2})).front().train_accuracy, 2.0 / 3,
              1e-12);
}

TEST(Trainer, FollowsTheScheduleByStepsAndGoesOnWhereARunEnded) {
  std::vector<int64_t> steps;
  const LrSchedule schedule = [&](int64_t step) {
    steps.push_back(step);
    return 0.1 / double(step + 1);
  };
  const DataLoader loader(quadrants(), {.batch_size = 40, .shuffle = true, .seed = 2});
  const auto run = [&](std::vector<TrainerOptions> parts) {
    random::manual_seed(5);
    Sequential model = classifier();
    Sgd optimizer(model, {.lr = 1});
    for (const TrainerOptions& options : parts) Trainer(model, optimizer, options).fit(loader);
    return all_weights(model);
  };
  const auto straight = run({{.epochs = 3, .schedule = schedule}});
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
  steps.clear();
  EXPECT_EQ(run({{.epochs = 1, .schedule = schedule},
                 {.epochs = 3, .first_epoch = 2, .schedule = schedule}}),
            straight);
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Trainer, ClipsTheGradientsNorm) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  // The gradient of mean(w * 8) is 8; clipped to 0.25, so that w = 1 - 0.25.
  Trainer(model, optimizer, {.clip_norm = 0.25, .loss = mean_of_outputs})
      .fit(DataLoader(column({8})));
  EXPECT_NEAR(weight_of(model), 0.75, 1e-6);
}

TEST(Trainer, ALossThatIsNotFiniteNamesEpochAndBatchBeforeTheStep) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const DataLoader loader(column({1, 2, nan, 4}), {.batch_size = 1});
  Trainer trainer(model, optimizer, {.epochs = 2, .loss = mean_of_outputs});
  EXPECT_EQ(thrown<Error>([&] { trainer.fit(loader); }),
            "[fit] the loss is nan in epoch 1, batch 2; nothing was changed by step 2, of learning "
            "rate 1. Made again with checks: [FindNonFinite] fit/Scale/multiply: binary a=(1, 1) "
            "f32 cpu b=(1,) f32 cpu -> y=(1, 1) f32 cpu multiply: y is nan. a is nan; b is -2. It "
            "came to the loss: () f32 cpu is nan. The batch's samples are 2");
  EXPECT_EQ(weight_of(model), 1 - 1 - 2);  // the two steps before
  EXPECT_TRUE(std::isnan(trainer.evaluate(loader).loss));
}

TEST(Trainer, UnguardedAGradientThatIsNotFiniteIsFoundWhenClipping) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  // sqrt of 0 is finite, its derivative is not.
  const auto loss = [](const Tensor& outputs, const Tensor&) { return mean(sqrt(outputs)); };
  EXPECT_THAT(thrown<Error>([&] {
                Trainer(model, optimizer,
                        {.clip_norm = 1, .non_finite = NonFinite::unguarded, .loss = loss})
                    .fit(DataLoader(column({0})));
              }),
              HasSubstr("[fit] the norm of the gradients is"));
  EXPECT_EQ(weight_of(model), 1);
}

// -- loss scaling ---------------------------------------------------------------------------------

std::vector<float> train_scaled(std::optional<LossScaleOptions> loss_scale) {
  random::manual_seed(3);
  Sequential model = classifier();
  Sgd optimizer(model, {.lr = 0.1, .momentum = 0.9});
  const DataLoader loader(quadrants(), {.batch_size = 10, .shuffle = true});
  const auto reports =
      Trainer(model, optimizer,
              {.epochs = 3, .accumulate = 2, .clip_norm = 1, .loss_scale = loss_scale})
          .fit(loader);
  for (const EpochReport& report : reports) {
    EXPECT_EQ(report.skipped_steps, loss_scale ? std::optional<int64_t>(0) : std::nullopt);
  }
  return all_weights(model);
}

TEST(Trainer, TrainsTheSameBitsInF32WithLossScaling) {
  EXPECT_EQ(train_scaled(LossScaleOptions{}), train_scaled({}));
}

// The loss is w x, its gradient x times the scale in f16: 8 * 65536 overflows, and so does each
// half of that down to 8 * 8192 = 65536; 8 * 4096 does not.
TEST(Trainer, CountsTheStepsThatLossScalingSkips) {
  Scale model;
  model.to(DType::f16);
  Sgd optimizer(model, {.lr = 0.0625});
  const DataLoader loader(
      TensorDataset(Tensor::full({1, 1}, 8, {.dtype = DType::f16}), Tensor::zeros({1, 1})));
  Trainer trainer(
      model, optimizer,
      {.epochs = 6, .clip_norm = 100, .loss_scale = LossScaleOptions{}, .loss = sum_of_outputs});
  std::vector<int64_t> skipped;
  for (const EpochReport& report : trainer.fit(loader)) skipped.push_back(*report.skipped_steps);
  EXPECT_THAT(skipped, ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_EQ(trainer.loss_scaler()->state().scale, 4096);
  EXPECT_EQ(model.weight.value.to(DType::f32).item(), 1 - 2 * 0.0625f * 8);
}

// The schedule is asked between unscale() and step().
TEST(Trainer, FitsAgainAfterAStepWithLossScalingThatFailed) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  double rate = -1;
  Trainer trainer(model, optimizer,
                  {.schedule = [&rate](int64_t) { return rate; },
                   .loss_scale = LossScaleOptions{},
                   .loss = mean_of_outputs});
  const DataLoader loader(column({3}));
  EXPECT_THAT(thrown<Error>([&] { return trainer.fit(loader); }), HasSubstr("lr"));
  EXPECT_EQ(weight_of(model), 1);
  rate = 0.25;
  trainer.fit(loader);
  EXPECT_EQ(weight_of(model), 1 - 0.25f * 3);
}

TEST(Trainer, SaysWhenNoLossScaleHelps) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  // sqrt of 0 is finite, its derivative is not.
  const auto loss = [](const Tensor& outputs, const Tensor&) { return mean(sqrt(outputs)); };
  Trainer trainer(model, optimizer,
                  {.epochs = 3, .loss_scale = LossScaleOptions{.initial = 2}, .loss = loss});
  EXPECT_EQ(thrown<Error>([&] { return trainer.fit(DataLoader(column({0}))); }),
            "[fit] no step of epoch 2 had finite gradients, at the lowest loss scale of 1 either; "
            "train in bf16 or f32, or lower the learning rate");
  EXPECT_EQ(weight_of(model), 1);
}

TEST(Trainer, EvaluationChangesNeitherModesNorGradientsNorRandomNumbers) {
  Sequential model = classifier();
  model.train();
  model.children()[2]->eval();  // the dropout alone
  Sgd optimizer(model, {.lr = 0.1});
  Trainer trainer(model, optimizer);
  const DataLoader loader(quadrants(), {.batch_size = 32, .shuffle = true});
  const Evaluation first = trainer.evaluate(loader);
  EXPECT_TRUE(model.training());
  EXPECT_TRUE(model.children()[0]->training());
  EXPECT_FALSE(model.children()[2]->training());
  EXPECT_FALSE(model.parameters()[0]->value.grad().defined());
  // Without dropout, so that it repeats up to the order of sums.
  const Evaluation second = trainer.evaluate(loader);
  EXPECT_NEAR(second.loss, first.loss, 1e-6);
  EXPECT_EQ(first.samples, 96);
  ASSERT_TRUE(first.accuracy.has_value());
  EXPECT_EQ(second.accuracy, first.accuracy);
}

TEST(Trainer, FitPutsAModelIntoTrainingButKeepsFrozenLayers) {
  Sequential model = classifier();
  model.eval();
  Sgd optimizer(model, {.lr = 0.1});
  const DataLoader loader(quadrants());
  Trainer trainer(model, optimizer);
  trainer.fit(loader);
  EXPECT_TRUE(model.children()[2]->training());
  model.children()[2]->eval();
  trainer.fit(loader);
  EXPECT_FALSE(model.children()[2]->training());
}

TEST(Trainer, CallbacksSeeBatchesThenTheEpochAndCanStop) {
  Scale model;
  Sgd optimizer(model, {.lr = 1e-30});
  double now = 0;
  const DataLoader loader(column({12, 8, 9}), {.batch_size = 2});
  Trainer trainer(model, optimizer,
                  {.epochs = 9, .loss = mean_of_outputs, .clock = [&] { return now; }});
  std::vector<std::string> events;
  const auto reports = trainer.fit(
      loader, loader,
      {.on_epoch_begin = [&](int64_t epoch) { events.push_back("begin " + std::to_string(epoch)); },
       .on_batch_end =
           [&](const BatchReport& report) {
             now += 0.5;
             EXPECT_EQ(report.epochs, 9);
             EXPECT_EQ(report.batches, 2);
             EXPECT_EQ(report.samples_of_epoch, 3);
             EXPECT_NEAR(report.loss, report.batch == 0 ? 10 : 29.0 / 3, 1e-5);
             events.push_back("batch " + std::to_string(report.batch) + " " +
                              std::to_string(report.samples));
           },
       .on_epoch_end =
           [&](const EpochReport& report) {
             EXPECT_NEAR(*report.test_loss, 29.0 / 3, 1e-5);
             events.push_back("epoch " + std::to_string(report.epoch));
             if (report.epoch == 2) trainer.stop();
           }});
  EXPECT_THAT(events, ElementsAre("begin 1", "batch 0 2", "batch 1 3", "epoch 1", "begin 2",
                                  "batch 0 2", "batch 1 3", "epoch 2"));
  ASSERT_EQ(reports.size(), 2);
  EXPECT_DOUBLE_EQ(reports[0].seconds, 1);
  EXPECT_DOUBLE_EQ(reports[0].images_per_s, 3);
}

TEST(Trainer, ErrorsOfTheDataReachTheCaller) {
  Scale model;
  Sgd optimizer(model, {.lr = 0.1});
  const TensorDataset wrong(Tensor::zeros({2, 3}), Tensor::from<int32_t>({0, 3}, {2}), 3);
  EXPECT_EQ(
      thrown<DataError>([&] { Trainer(model, optimizer).fit(DataLoader(wrong, {.workers = 2})); }),
      "[DataLoader] epoch 1, batch 0: [Dataset] item 1 has label 3; with 3 classes labels are "
      "0..2");
}

TEST(Trainer, RefusesOptionsOutOfRangeAndLossesThatAreNoScalar) {
  Scale model;
  Sgd optimizer(model, {.lr = 0.1});
  EXPECT_EQ(thrown<Error>([&] { Trainer(model, optimizer, {.epochs = 0}); }),
            "[Trainer] wants epochs and first_epoch of 1 or more and a clip_norm not negative, got "
            "0, 1 and 0");
  const auto no_mean = [](const Tensor& outputs, const Tensor&) { return outputs; };
  EXPECT_EQ(
      thrown<ShapeError>([&] {
        Trainer(model, optimizer, {.loss = no_mean}).fit(DataLoader(column({1, 2})));
      }),
      "[fit] the loss function gave (2, 1) f32 cpu, wanted a scalar: the mean over the batch");
}

}  // namespace
}  // namespace adret
