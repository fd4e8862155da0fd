// What a trainer does with steps that are not finite.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/optim/sgd.h>
#include <gmock/gmock.h>

#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

class Modes : public testing::TestWithParam<StepMode> {};
INSTANTIATE_TEST_SUITE_P(NonFinite, Modes, testing::Values(StepMode::eager, StepMode::graph));

TEST_P(Modes, StopBeforeAnythingChangesAndSayWhereItCameFrom) {
  ExplosiveTraining training({.mode = GetParam()});
  expect_stops(training);
}

TEST_P(Modes, StopWithAnAverageClippingAndSeveralBatchesAStep) {
  ExplosiveTraining training({.accumulate = 2,
                              .clip_norm = 1,
                              .average = WeightAverageOptions{.decay = 0.9},
                              .mode = GetParam()});
  expect_stops(training, 2);
}

TEST_P(Modes, SkipTheStepWhenAsked) {
  ExplosiveTraining training({.epochs = 2,
                              .non_finite = NonFinite::skip,
                              .average = WeightAverageOptions{.decay = 0.9},
                              .mode = GetParam()});
  const std::vector<EpochReport> reports = training.fit(true);
  ASSERT_EQ(reports.size(), 2u);
  for (const EpochReport& report : reports) {
    EXPECT_EQ(report.skipped_steps, 1);
    EXPECT_TRUE(std::isfinite(report.train_loss));
  }
  const auto odd = size_t(training.odd_batch);
  ASSERT_EQ(training.before.size(), 11u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(training.before[i] == training.before[i + 1], i == odd) << i;
  }
}

TEST_P(Modes, SayWhenAllStepsAreSkipped) {
  ExplosiveTraining training(
      {.non_finite = NonFinite::skip,
       .loss = [](const Tensor& x, const Tensor&) { return sum(x) * HUGE_VAL; },
       .mode = GetParam()});
  const auto before = training.bytes();
  EXPECT_EQ(thrown<Error>([&] { training.fit(false); }),
            "[fit] no step of epoch 1 had a finite loss and finite gradients; set non_finite to "
            "NonFinite::stop to learn why");
  EXPECT_EQ(training.bytes(), before);
}

TEST_P(Modes, NoticeGradientsOfAFiniteLoss) {
  // sqrt of 0 is finite, its derivative is not.
  ExplosiveTraining training(
      {.loss = [](const Tensor& x, const Tensor&) { return mean(sqrt(x * 0.0) + x); },
       .mode = GetParam()});
  const auto before = training.bytes();
  const std::string text = thrown<Error>([&] { training.fit(false); });
  EXPECT_THAT(text, HasSubstr("[fit] a gradient is not finite in epoch 1, batch 0"));
  EXPECT_THAT(text, HasSubstr("[FindNonFinite] fit/sqrt backward"));
  EXPECT_EQ(training.bytes(), before);
}

// Masks of -inf and logarithms of 0 in a model are not to blame for what another layer makes.
TEST(NonFiniteStep, BlamesNoMask) {
  struct Masked : Layer<Masked> {
    Explosive& explosive = add("explosive", Explosive());
    Tensor forward(const Tensor& x) {
      const Tensor mask = Tensor::from<float>({0, -HUGE_VALF}, {2}) * 2.0;
      const Tensor shares = softmax(x + mask, -1) * exp(log(abs(x.detach()) * 0.0));
      return explosive(x) + sum(shares);
    }
  };
  random::manual_seed(4);
  Masked model;
  Adam optimizer(model);
  Trainer trainer(model, optimizer);
  EXPECT_TRUE(std::isfinite(trainer.fit(DataLoader(points(), {.batch_size = 8}))[0].train_loss));
  const std::string text =
      thrown<Error>([&] { return trainer.fit(DataLoader(points(17), {.batch_size = 8})); });
  EXPECT_THAT(text, HasSubstr("Made again with checks: [FindNonFinite] "
                              "fit/Masked/explosive/exponential/exp: unary x=(8, 2) f32"));
  EXPECT_THAT(text, HasSubstr("It came to the loss: "));
}

// The gradients are finite, their norm is not.
TEST_P(Modes, NoticeANormThatOverflows) {
  random::manual_seed(1);
  Linear model(1, 1);
  model.to(DType::f64);
  Sgd optimizer(model, {.lr = 1});
  Trainer trainer(model, optimizer,
                  {.clip_norm = 1,
                   .loss = [](const Tensor& x, const Tensor&) { return mean(x * 1e200); },
                   .mode = GetParam()});
  const TensorDataset ones(Tensor::ones({4, 1}, {.dtype = DType::f64}),
                           Tensor::zeros({4}, {.dtype = DType::i32}), 1);
  const double before = model.weight.value.item<double>();
  const std::string text =
      thrown<Error>([&] { return trainer.fit(DataLoader(ones, {.batch_size = 2})); });
  EXPECT_THAT(text,
              HasSubstr("[fit] a gradient, or the norm of all, is not finite in epoch 1, batch 0"));
  EXPECT_THAT(text, HasSubstr("Made again with checks: [clip_norm] the norm of the gradients is "
                              "inf, so they cannot be scaled and are untouched: every gradient is "
                              "finite, up to 1e+200 in \"weight\" (1, 1), but the sum of their "
                              "squares is too large for f64; make the loss smaller"));
  EXPECT_EQ(model.weight.value.item<double>(), before);
}

// Of a step that ends in the middle by something else.
TEST(NonFiniteStep, ThatThrowsLeavesTheBuffers) {
  ExplosiveTraining training(
      {.loss = [](const Tensor&, const Tensor&) -> Tensor { throw Error("no loss today"); }});
  const auto before = training.bytes();
  EXPECT_EQ(thrown<Error>([&] { training.fit(false); }), "no loss today");
  EXPECT_EQ(training.bytes(), before);
}

// Gives the batches of points(), but for the second of an epoch when it is to fail.
struct Unreadable : Dataset {
  int64_t size() const override { return 40; }
  Sample get(int64_t index) const override {
    if (fails && index >= 8) throw Error("the disk is gone");
    return set.get(index);
  }
  int64_t num_classes() const override { return 3; }
  TensorDataset set = points();
  bool fails = false;
};

// Between the batches of a step, where no code of the step runs.
TEST_P(Modes, ErrorsBetweenBatchesLeaveTheBuffers) {
  const auto set = std::make_shared<Unreadable>();
  ExplosiveTraining training({.accumulate = 2, .mode = GetParam()});
  const DataLoader loader(set, {.batch_size = 8});
  training.trainer->fit(loader);
  const auto before = training.bytes();
  set->fails = true;
  EXPECT_THAT(thrown<Error>([&] { training.trainer->fit(loader); }), HasSubstr("the disk is gone"));
  EXPECT_EQ(training.bytes(), before);
  set->fails = false;
  const auto stop = [](const BatchReport&) { throw Error("enough"); };
  EXPECT_EQ(thrown<Error>([&] { training.trainer->fit(loader, {.on_batch_end = stop}); }),
            "enough");
  EXPECT_EQ(training.bytes(), before);
}

// Losses are 2, 1 and 0; the last one's gradient is infinite.
TEST(NonFiniteStep, ThatIsSkippedDoesNotCountForTheLoss) {
  Linear model(1, 1, {.bias = false});
  {
    const NoGrad no_grad;
    fill_(model.weight.value, 1);
  }
  Sgd optimizer(model, {.lr = 0});
  Trainer trainer(model, optimizer,
                  {.non_finite = NonFinite::skip,
                   .loss = [](const Tensor& x, const Tensor&) { return mean(sqrt(x)); }});
  const TensorDataset set(Tensor::from<float>({4, 1, 0}, {3, 1}),
                          Tensor::zeros({3}, {.dtype = DType::i32}), 1);
  const auto reports = trainer.fit(DataLoader(set, {.batch_size = 1}));
  EXPECT_EQ(reports[0].skipped_steps, 1);
  EXPECT_EQ(reports[0].train_loss, 1.5);
}

TEST_P(Modes, UnguardedTheWeightsAreLostOrTheLossIsFoundFirst) {
  ExplosiveTraining training({.non_finite = NonFinite::unguarded, .mode = GetParam()});
  EXPECT_EQ(thrown<Error>([&] { training.fit(true); }),
            fmt::format("[fit] the loss is nan in epoch 1, batch {}; lower the learning rate, clip "
                        "the gradients, or look at the data of that batch",
                        training.odd_batch));
}

// A set that gives something else when it is asked again.
struct Fickle : Dataset {
  int64_t size() const override { return 4; }
  Sample get(int64_t) const override {
    return {Tensor::from({asked++ < 4 ? 90.f : 1.f, 0.f}, {2}), Tensor::from<int32_t>({1}, {})};
  }
  mutable int asked = 0;
};

TEST(NonFiniteStep, ThatIsFiniteTheSecondTimeIsTold) {
  Explosive model;
  Adam optimizer(model);
  Trainer trainer(model, optimizer);
  EXPECT_THAT(thrown<Error>([&] { trainer.fit(DataLoader(Fickle(), {.batch_size = 4})); }),
              HasSubstr("Made again with checks: all was finite, so data, model or rounding differ "
                        "from one run to the next. The batch's samples are 0, 1, 2, 3"));
}

TEST(DataLoader, MakesABatchOfAnEpochAgain) {
  for (const int workers : {0, 2}) {
    const DataLoader loader(points(), {.batch_size = 16, .shuffle = true, .workers = workers});
    for (const Batch& batch : loader.epoch(3)) {
      const Batch again = loader.batch(3, batch.number);
      EXPECT_EQ(again.indices, batch.indices);
      EXPECT_EQ(again.number, batch.number);
      EXPECT_EQ(again.inputs.to_vector(), batch.inputs.to_vector());
    }
    expect_error<Error>([&] { return loader.batch(1, 3); },
                        "[DataLoader] batch 3 is not there; an epoch has 3");
  }
}

}  // namespace
}  // namespace adret
