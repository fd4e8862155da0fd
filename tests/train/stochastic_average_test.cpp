// Uniform averages of weights, statistics of batch norms measured anew, and the trainer's use.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/flatten.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>
#include <adret/optim/reduce_on_plateau.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>
#include <adret/train/update_batch_norm.h>
#include <gtest/gtest.h>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

struct Scale : Layer<Scale> {
  Parameter& weight = parameter("weight", Tensor::ones({1}));
  Tensor forward(const Tensor& x) { return x * weight.value; }
};

Values exact(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

TEST(UniformAverage, IsTheMeanOfAllUpdates) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    Scale model;
    model.to(dtype);
    Sgd optimizer(model, {.lr = 1});
    WeightAverage average(model, optimizer, {.uniform = true});
    double sum = 0;
    for (const double weight : {4.0, -1.0, 0.5, 8.0, 2.0}) {
      {
        const NoGrad no_grad;
        fill_(model.weight.value, weight);
      }
      average.update();
      sum += weight;
    }
    const AveragedWeights averaged(average);
    const Tensor master = model.weight.exact();
    EXPECT_NEAR(exact(master)[0], sum / 5, dtype == DType::f64 ? 1e-15 : 1e-6) << name(dtype);
  }
}

// The loss is the weight, so each epoch of one batch lowers it by the rate.
TEST(UniformAverage, TakesTheEpochsOfATrainerFromOneOn) {
  const DataLoader loader(TensorDataset(Tensor::ones({2, 1}), Tensor::zeros({2, 1})),
                          {.batch_size = 2});
  for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
    Scale model;
    Sgd optimizer(model, {.lr = 0.25});
    Trainer trainer(model, optimizer,
                    {.epochs = 5,
                     .loss = [](const Tensor& outputs, const Tensor&) { return mean(outputs); },
                     .average = WeightAverageOptions{.uniform = true},
                     .average_from = 3,
                     .mode = mode});
    Values losses;
    for (const EpochReport& epoch : trainer.fit(loader, loader)) {
      losses.push_back(*epoch.test_loss);
    }
    // 0.75 and 0.5 as they are; the means of 0.25, of 0.25 and 0, of 0.25, 0 and -0.25.
    expect_close(losses, {0.75, 0.5, 0.25, 0.125, 0}, {.absolute = 1e-7}, "losses");
    EXPECT_EQ(trainer.average()->updates(), 3);
    EXPECT_EQ(model.weight.value.item(), -0.25f);
  }
  Scale model;
  Sgd optimizer(model, {.lr = 1});
  expect_error<Error>([&] { return Trainer(model, optimizer, {.average_from = 0}).average(); },
                      "[Trainer] average_from is 0; epochs count from 1");
}

// Two channels; images (N, 1, 1, 2) of three batches, the last one smaller.
const std::vector<float> pixels = {1, 10, 3, 20, 5, 30, 7, 70, 2, 5, 4, 9, 6, 1, 9, 4, 3, 8, 5, 2};
DataLoader pixel_loader() {
  return DataLoader(TensorDataset(Tensor::from(pixels, {10, 1, 1, 2}), Tensor::zeros({10, 1})),
                    {.batch_size = 4});
}

// The means over the batches of their means and unbiased variances, of scale * x.
struct Statistics {
  Values mean = Values(2, 0), var = Values(2, 0);
};
Statistics expected(double scale) {
  Statistics result;
  const size_t ends[] = {0, 4, 8, 10};
  for (size_t batch = 0; batch < 3; ++batch) {
    const double n = double(ends[batch + 1] - ends[batch]);
    for (size_t channel = 0; channel < 2; ++channel) {
      double mean = 0, squares = 0;
      for (size_t i = ends[batch]; i < ends[batch + 1]; ++i) {
        mean += scale * pixels[2 * i + channel] / n;
      }
      for (size_t i = ends[batch]; i < ends[batch + 1]; ++i) {
        const double off = scale * pixels[2 * i + channel] - mean;
        squares += off * off;
      }
      result.mean[channel] += mean / 3;
      result.var[channel] += squares / (n - 1) / 3;
    }
  }
  return result;
}

TEST(UpdateBatchNorm, TakesTheMeansOverTheBatches) {
  for (const double momentum : {0.1, 1.0}) {
    Sequential model(Dropout(0), BatchNorm2d(2, {.momentum = momentum}), Flatten());
    auto& norm = dynamic_cast<BatchNorm2d&>(*model.children()[1]);
    if (momentum == 1) model.eval();
    {
      const NoGrad no_grad;
      fill_(norm.running_mean, 77);
    }
    update_batch_norm(model, pixel_loader());
    const Statistics wanted = expected(1);
    expect_close(exact(norm.running_mean), wanted.mean, {.relative = 1e-6}, "mean");
    expect_close(exact(norm.running_var), wanted.var, {.relative = 1e-6}, "variance");
    EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 3);
    EXPECT_EQ(norm.training(), momentum != 1);
    EXPECT_EQ(model.training(), momentum != 1);
  }
}

TEST(UpdateBatchNorm, LeavesNormsAloneThatWereFrozen) {
  Sequential model(BatchNorm2d(2), BatchNorm2d(2));
  model.children()[0]->eval();
  update_batch_norm(model, pixel_loader());
  const auto mean = [&](size_t i) {
    return exact(dynamic_cast<BatchNorm2d&>(*model.children()[i]).running_mean);
  };
  EXPECT_EQ(mean(0), (Values{0, 0}));
  EXPECT_NE(mean(1), (Values{0, 0}));
  EXPECT_FALSE(model.children()[0]->training());
}

struct Unreached : Layer<Unreached> {
  BatchNorm2d& twice = add("twice", BatchNorm2d(2));
  BatchNorm2d& never = add("never", BatchNorm2d(2));
  Tensor forward(const Tensor& x) { return twice(x) + twice(x * 3); }
};

TEST(UpdateBatchNorm, CountsCallsAndLeavesNormsThatNoBatchReaches) {
  Unreached model;
  update_batch_norm(model, pixel_loader());
  const Statistics one = expected(1), three = expected(3);
  for (size_t channel = 0; channel < 2; ++channel) {
    EXPECT_NEAR(exact(model.twice.running_mean)[channel],
                (one.mean[channel] + three.mean[channel]) / 2, 1e-4);
    EXPECT_NEAR(exact(model.twice.running_var)[channel],
                (one.var[channel] + three.var[channel]) / 2, 2e-3);
  }
  EXPECT_EQ(exact(model.never.running_mean), (Values{0, 0}));
  EXPECT_EQ(exact(model.never.running_var), (Values{1, 1}));
}

// A last batch of one sample, of which there is no variance, behind others.
TEST(UpdateBatchNorm, LeavesAllAsItWasWhereABatchFails) {
  Sequential model(BatchNorm1d(2), BatchNorm1d(2));
  auto& norm = dynamic_cast<BatchNorm1d&>(*model.children()[0]);
  {
    const NoGrad no_grad;
    fill_(norm.running_mean, 7);
    fill_(norm.running_var, 5);
    fill_(norm.num_batches_tracked, 3);
  }
  const Tensor samples = Tensor::from(Values{1, 2, 3, 5, 8, 13, 21, 34, 55, 89}, {5, 2});
  const DataLoader loader(
      TensorDataset(samples.to(DType::f32), Tensor::zeros({5}, {.dtype = DType::i64})),
      {.batch_size = 2});
  expect_error<ShapeError>([&] { return update_batch_norm(model, loader), 0; }, "batch_norm");
  EXPECT_EQ(exact(norm.running_mean), (Values{7, 7}));
  EXPECT_EQ(exact(norm.running_var), (Values{5, 5}));
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 3);
}

TEST(UpdateBatchNorm, RefusesNormsThatTellNothing) {
  Sequential model(BatchNorm2d(2, {.momentum = 0}));
  expect_error<Error>([&] { return update_batch_norm(model, pixel_loader()), 0; },
                      "[update_batch_norm] the momentum of \"0\" is 0");
  EXPECT_EQ(exact(dynamic_cast<BatchNorm2d&>(*model.children()[0]).running_var), (Values{1, 1}));
}

// What a trainer evaluates is the averaged network with statistics of its own.
TEST(UpdateBatchNorm, IsDoneByATrainerWithAUniformAverage) {
  random::manual_seed(3);
  Sequential model(Conv2d(2, 2, {.kernel = 1}), BatchNorm2d(2), Flatten(), Linear(2, 1));
  Sgd optimizer(model, {.lr = 0.05});
  const DataLoader loader = pixel_loader();
  Trainer trainer(
      model, optimizer,
      {.epochs = 4,
       .loss = [](const Tensor& outputs, const Tensor&) { return mean(square(outputs)); },
       .average = WeightAverageOptions{.uniform = true},
       .average_from = 2});
  const double last = *trainer.fit(loader, loader).back().test_loss;
  const AveragedWeights averaged(*trainer.average());
  EXPECT_NE(trainer.evaluate(loader).loss, last);  // with averages of running statistics
  update_batch_norm(model, loader);
  EXPECT_EQ(trainer.evaluate(loader).loss, last);
}

TEST(ReduceOnPlateau, WorksInATrainersCallback) {
  const DataLoader loader(TensorDataset(Tensor::ones({2, 1}), Tensor::zeros({2, 1})),
                          {.batch_size = 2});
  for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
    Scale model;
    Sgd optimizer(model, {.lr = 0.25});
    ReduceOnPlateau plateau(optimizer, {.higher_is_better = true, .factor = 0.5, .patience = 1});
    Trainer trainer(model, optimizer,
                    {.epochs = 6,
                     .loss = [](const Tensor& outputs, const Tensor&) { return mean(outputs); },
                     .mode = mode});
    Values losses;
    trainer.fit(loader, loader, {.on_epoch_end = [&](const EpochReport& epoch) {
                  losses.push_back(*epoch.test_loss);
                  plateau.step(losses.back());
                }});
    // The loss falls, which is bad here: the rate is halved behind the third and fifth epoch.
    EXPECT_EQ(losses, (Values{0.75, 0.5, 0.25, 0.125, 0, -0.0625}));
  }
}

}  // namespace
}  // namespace adret
