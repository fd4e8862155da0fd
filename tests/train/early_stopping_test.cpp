// Early stopping and best weights.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>
#include <adret/train/weights.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(BestEpoch, ComparesLossesDownwardsAndAccuraciesUpwards) {
  BestEpoch loss(Metric::test_loss, 0.1), accuracy(Metric::test_accuracy);
  EXPECT_FALSE(loss.add(1, {.loss = NAN}));
  EXPECT_EQ(loss.epoch(), 0);
  EXPECT_TRUE(loss.add(2, {.loss = 3}));
  EXPECT_FALSE(loss.add(3, {.loss = 2.9375}));  // not by more than 0.1
  EXPECT_FALSE(loss.add(4, {.loss = NAN}));
  EXPECT_EQ(loss.epochs_since(), 2);
  EXPECT_TRUE(loss.add(5, {.loss = 2.875}));
  EXPECT_EQ(loss.epoch(), 5);
  EXPECT_EQ(loss.epochs_since(), 0);
  EXPECT_TRUE(accuracy.add(1, {.loss = 9, .accuracy = 0}));
  EXPECT_FALSE(accuracy.add(2, {.loss = 1, .accuracy = 0}));
  EXPECT_TRUE(accuracy.add(3, {.loss = 99, .accuracy = 0.5}));
  EXPECT_EQ(thrown<Error>([&] { return accuracy.add(4, {.loss = 1}); }),
            "[fit] the evaluation has no accuracy to compare epochs by, as outputs and targets are "
            "not those of a classification; use Metric::test_loss");
}

// One weight w, trained on mean(w x) with x = 1 at rate 1: w falls by 1 an epoch, from 5. The
// evaluation is |w - 2.25| with x = 1: best at 2 after three epochs.
struct Scale : Layer<Scale> {
  Parameter& weight = parameter("weight", Tensor::full({1}, 5));
  Tensor& calls = buffer("calls", Tensor::zeros({1}));
  Tensor forward(const Tensor& x) {
    if (training()) {
      const NoGrad no_grad;
      add_(calls, Tensor::ones({1}, {.dtype = calls.dtype()}));
    }
    return x * weight.value;
  }
  float value() const { return weight.value.to(DType::f32).item(); }
};

Tensor distance(const Tensor& outputs, const Tensor&) {
  return grad_enabled() ? mean(outputs) : abs(mean(outputs) - 2.25);
}

struct Fitted {
  std::vector<EpochReport> reports;
  float weight, calls;
};

Fitted fit(TrainerOptions options, DType dtype = DType::f32) {
  Scale model;
  model.to(dtype);
  Sgd optimizer(model, {.lr = 1});
  const DataLoader loader(
      TensorDataset(Tensor::ones({1, 1}, {.dtype = dtype}), Tensor::zeros({1, 1})));
  options.epochs = 9;
  options.loss = distance;
  const auto reports = Trainer(model, optimizer, options).fit(loader, loader);
  return {reports, model.value(), model.calls.to(DType::f32).item()};
}

std::vector<bool> best_of(const std::vector<EpochReport>& reports) {
  std::vector<bool> best;
  for (const EpochReport& report : reports) best.push_back(report.best);
  return best;
}

TEST(EarlyStopping, WaitsForABetterEpoch) {
  const Fitted result = fit({.early_stopping = EarlyStoppingOptions{.patience = 2}});
  std::vector<double> losses;
  for (const EpochReport& report : result.reports) losses.push_back(*report.test_loss);
  EXPECT_THAT(losses, ElementsAre(1.75, 0.75, 0.25, 1.25, 2.25));
  EXPECT_THAT(best_of(result.reports), ElementsAre(true, true, true, false, false));
  EXPECT_EQ(result.weight, 0);  // it ends with its own weights
}

TEST(EarlyStopping, CountsSmallGainsAsNone) {
  const Fitted result =
      fit({.early_stopping = EarlyStoppingOptions{.patience = 1, .min_delta = 0.75}});
  EXPECT_EQ(result.reports.size(), 3u);  // 1.75, 0.75, 0.25
}

// The gain of the third epoch is too small for early stopping, but its weights are the best.
TEST(EarlyStopping, LeavesTheBestEpochToBestWeights) {
  const Fitted result =
      fit({.early_stopping = EarlyStoppingOptions{.patience = 1, .min_delta = 0.75},
           .best_weights = BestWeightsOptions{}});
  EXPECT_THAT(best_of(result.reports), ElementsAre(true, true, true));
  EXPECT_EQ(result.weight, 2);
}

// From 4.5 the weight falls to 3.5, 2.5, 1.5, 0.5, -0.5: the loss |w - 2.25| is best after two
// epochs. Of the outputs 1.5 w and 0.5 w the second, which the label says, is the larger one from
// the fifth epoch on.
TEST(EarlyStopping, AndBestWeightsMayGoByDifferentMetrics) {
  const auto fit_classes = [](TrainerOptions options) {
    Scale model;
    {
      const NoGrad no_grad;
      copy_(model.weight.value, Tensor::full({1}, 4.5));
    }
    Sgd optimizer(model, {.lr = 1});
    const DataLoader loader(TensorDataset(Tensor::from({1.5f, 0.5f}, {1, 2}),
                                          Tensor::from(std::vector<int32_t>{1}, {1}), 2));
    options.epochs = 9;
    options.loss = distance;
    const auto reports = Trainer(model, optimizer, options).fit(loader, loader);
    return Fitted{reports, model.value(), 0};
  };
  const Fitted by_accuracy =
      fit_classes({.early_stopping = EarlyStoppingOptions{.patience = 2},
                   .best_weights = BestWeightsOptions{.metric = Metric::test_accuracy}});
  EXPECT_THAT(best_of(by_accuracy.reports), ElementsAre(true, false, false, false));
  EXPECT_EQ(by_accuracy.weight, 3.5f);
  const Fitted by_loss = fit_classes(
      {.early_stopping = EarlyStoppingOptions{.metric = Metric::test_accuracy, .patience = 4},
       .best_weights = BestWeightsOptions{}});
  EXPECT_THAT(best_of(by_loss.reports),
              ElementsAre(true, true, false, false, false, false, false, false, false));
  EXPECT_EQ(by_loss.weight, 2.5f);
}

TEST(BestWeights, AreRestoredWithBuffersAndMasters) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Fitted result = fit({.best_weights = BestWeightsOptions{}}, dtype);
    EXPECT_EQ(result.reports.size(), 9u);
    EXPECT_EQ(result.weight, 2) << dtype;
    EXPECT_EQ(result.calls, 3) << dtype;
  }
}

TEST(BestWeights, AreWrittenToAFileAndLeftThere) {
  const TempDir folder;
  const auto path = folder / "best.safetensors";
  const Fitted result = fit({.early_stopping = EarlyStoppingOptions{.patience = 4},
                             .best_weights = BestWeightsOptions{.restore = false, .path = path}});
  EXPECT_EQ(result.weight, 5 - 7);  // 3 epochs and 4 more
  const TensorFile file = read_tensors(path);
  EXPECT_EQ(file.tensors[0].tensor.item(), 2);
  EXPECT_EQ(file.metadata.at("epoch"), "3");
}

TEST(BestWeights, AreNotTrainedForAPathThatCannotBeWritten) {
  const TempDir folder;
  folder.write("file", "");
  const auto error = [](const std::filesystem::path& path) {
    Scale model;
    model.eval();
    Sgd optimizer(model, {.lr = 1});
    const DataLoader loader(TensorDataset(Tensor::ones({1, 1}), Tensor::zeros({1, 1})));
    Trainer trainer(model, optimizer, {.best_weights = BestWeightsOptions{.path = path}});
    const std::string text = thrown<CheckpointError>([&] { return trainer.fit(loader, loader); });
    EXPECT_EQ(model.value(), 5);
    EXPECT_FALSE(model.training());
    return text;
  };
  for (const char* place : {"none", "file"}) {
    const std::string parent = (folder / place).string();
    EXPECT_EQ(error(parent + "/best"), "[fit] the best weights go to " + parent +
                                           "/best, but there is no folder " + parent +
                                           "; create it first");
  }
  EXPECT_EQ(error(folder.path()),
            "[save] " + folder.path().string() + " is not a file; give the name of one");
  // The folder is there, but the system creates no such file in it.
  const std::string long_name = (folder / std::string(300, 'x')).string();
  EXPECT_THAT(error(long_name), AllOf(HasSubstr("[save] cannot create " + long_name),
                                      HasSubstr("File name too long")));
}

// Averages of decay 0.5 from 5: 4.5, 3.75, 2.875, 1.9375: best in the fourth epoch.
TEST(BestWeights, AreTheAveragesWhereThoseAreEvaluated) {
  const Fitted result = fit({.average = WeightAverageOptions{.decay = 0.5, .warm_up = false},
                             .best_weights = BestWeightsOptions{}});
  EXPECT_EQ(result.weight, 1.9375f);
  EXPECT_NEAR(*result.reports[3].test_loss, 0.3125, 1e-6);
}

TEST(BestWeights, NeedAnEvaluationAndOptionsInRange) {
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  const DataLoader loader(TensorDataset(Tensor::ones({1, 1}), Tensor::zeros({1, 1})));
  EXPECT_EQ(thrown<Error>([&] {
              return Trainer(model, optimizer, {.best_weights = BestWeightsOptions{}}).fit(loader);
            }),
            "[fit] early_stopping and best_weights go by the evaluation; give a validation set");
  EXPECT_EQ(thrown<Error>([&] {
              Trainer(model, optimizer,
                      {.early_stopping = EarlyStoppingOptions{.patience = 0, .min_delta = -1}});
            }),
            "[Trainer] early_stopping wants a patience of 1 epoch or more and a min_delta not "
            "negative, got 0 and -1");
}

}  // namespace
}  // namespace adret
