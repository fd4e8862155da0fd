// Averages of weights: values, the scope that puts them into the model, and the trainer's use.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/conv.h>
#include <adret/layers/flatten.h>
#include <adret/layers/init.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <adret/train/trainer.h>
#include <adret/train/weights.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;

struct Vector : Layer<Vector> {
  Parameter& weight = parameter("weight", Tensor::from<float>({1, 2}, {2}));
  Tensor& seen = buffer("seen", Tensor::from<float>({8}, {1}));
  Tensor& count = buffer("count", Tensor::from<int64_t>({3}, {1}));
  Tensor forward(const Tensor& x) { return x * weight.value; }
};

void fill(const Tensor& tensor, double value) {
  const NoGrad no_grad;
  fill_(tensor, value);
}
std::vector<float> floats(const Tensor& tensor) { return tensor.to(DType::f32).to_vector(); }

TEST(WeightAverage, FollowsWeightsAndBuffers) {
  Vector model;
  Sgd optimizer(model, {.lr = 1});
  WeightAverage average(model, optimizer, {.decay = 0.75, .warm_up = false});
  fill(model.weight.value, 5);
  fill(model.seen, 0);
  fill(model.count, 9);
  average.update();
  average.update();
  EXPECT_EQ(average.updates(), 2);
  EXPECT_EQ(floats(model.weight.value), (std::vector<float>{5, 5}));
  {
    // 5 - 0.75^2 * (5 - 1), 5 - 0.75^2 * (5 - 2), 0.75^2 * 8
    const AveragedWeights averaged(average);
    EXPECT_EQ(floats(model.weight.value), (std::vector<float>{2.75, 3.3125}));
    EXPECT_EQ(floats(model.seen), (std::vector<float>{4.5}));
    EXPECT_EQ(model.count.item<int64_t>(), 9);  // integers are those of now
  }
  EXPECT_EQ(floats(model.weight.value), (std::vector<float>{5, 5}));
  EXPECT_EQ(floats(model.seen), (std::vector<float>{0}));
}

// A view of a buffer that somebody holds shows what the buffer has.
TEST(WeightAverage, LeavesBuffersWithViewsWhereTheyAre) {
  for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
    Vector model;
    const Tensor view = model.seen.reshape({1, 1});
    Sgd optimizer(model, {.lr = 1});
    WeightAverage average(model, optimizer, {.decay = 0.75, .warm_up = false});
    Step step(
        [&](const Tensor& x) {
          const NoGrad no_grad;
          copy_(model.seen, x);
          average.update();
          return x * 1.0;
        },
        {.mode = mode});
    double expected = 8;
    for (int i = 0; i < 5; ++i) {
      step(Tensor::full({1}, i));
      EXPECT_EQ(view.item(), float(i));
      expected += 0.25 * (i - expected);
    }
    if (mode == StepMode::graph) {
      EXPECT_GE(step.report().replays, 2);
    }
    {
      const AveragedWeights averaged(average);
      EXPECT_NEAR(view.item(), expected, 1e-6);
      EXPECT_EQ(view.item(), model.seen.item());
    }
    EXPECT_EQ(view.item(), 4);
  }
}

TEST(WeightAverage, ForgetsTheStartSoonWhenItWarmsUp) {
  Vector model;
  Sgd optimizer(model, {.lr = 1});
  WeightAverage average(model, optimizer, {.decay = 0.999});
  fill(model.weight.value, 5);
  average.update();  // of weight 1 - 1 / 10
  const AveragedWeights averaged(average);
  EXPECT_NEAR(floats(model.weight.value)[0], 4.6, 1e-6);
}

TEST(WeightAverage, ReadsTheMastersOf16BitWeightsAndWritesThem) {
  Vector model;
  model.to(DType::bf16);
  Sgd optimizer(model, {.lr = 0x1p-12f});
  WeightAverage average(model, optimizer, {.decay = 0.5, .warm_up = false});
  model.weight.value.set_grad(Tensor::full({2}, -1, {.dtype = DType::bf16}));
  optimizer.step();  // the masters move by 2^-12, the values do not
  average.update();
  const std::vector<float> expected{1 + 0x1p-13f, 2 + 0x1p-13f}, own{1 + 0x1p-12f, 2 + 0x1p-12f};
  {
    const AveragedWeights averaged(average);
    EXPECT_EQ(model.weight.master().to_vector(), expected);
    EXPECT_EQ(floats(model.weight.value), (std::vector<float>{1, 2}));
    const TempDir folder;
    const auto file = folder / "averaged.safetensors";
    save_weights(model, file);
    for (const NamedTensor& saved : read_tensors(file).tensors) {
      if (saved.name != "weight") continue;
      EXPECT_EQ(saved.tensor.to_vector(), expected);
    }
  }
  EXPECT_EQ(model.weight.master().to_vector(), own);
  model.weight.value.set_grad(Tensor::full({2}, -1, {.dtype = DType::bf16}));
  optimizer.step();
  EXPECT_EQ(model.weight.master().to_vector(), (std::vector<float>{1 + 0x1p-11f, 2 + 0x1p-11f}));
}

// A value that is written to makes its master unknown; the average follows the value.
TEST(WeightAverage, FollowsA16BitWeightThatIsWrittenTo) {
  Vector model;
  model.to(DType::f16);
  Sgd optimizer(model, {.lr = 1});
  WeightAverage average(model, optimizer, {.decay = 0, .warm_up = false});
  fill(model.weight.value, 7);
  average.update();
  const AveragedWeights averaged(average);
  EXPECT_EQ(floats(model.weight.value), (std::vector<float>{7, 7}));
}

TEST(WeightAverage, GivesTheWeightsBackWhenAnErrorEndsTheScope) {
  Vector model;
  Sgd optimizer(model, {.lr = 1});
  WeightAverage average(model, optimizer, {.decay = 0.5, .warm_up = false});
  fill(model.weight.value, 5);
  average.update();
  try {
    const AveragedWeights averaged(average);
    throw std::runtime_error("out of luck");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(floats(model.weight.value), (std::vector<float>{5, 5}));
  average.update();  // the scope is over
}

TEST(WeightAverage, TakesSeveralOptimizers) {
  Linear model(1, 1);
  Sgd weights({{{model.weight.shared_from_this()}, {.lr = 1}}});
  Adam biases({{{model.bias.shared_from_this()}, {}}});
  WeightAverage average(model, {&weights, &biases}, {.decay = 0, .warm_up = false});
  fill(model.weight.value, 3);
  fill(model.bias.value, 4);
  average.update();
  fill(model.weight.value, 0);
  fill(model.bias.value, 0);
  const AveragedWeights averaged(average);
  EXPECT_EQ(model.weight.value.item(), 3);
  EXPECT_EQ(model.bias.value.item(), 4);
}

TEST(WeightAverage, SaysWhatItCannotAverage) {
  Linear model(2, 1);
  Vector other;
  Sgd half({{{model.bias.shared_from_this()}, {.lr = 1}}});
  EXPECT_EQ(thrown<Error>([&] { WeightAverage(model, half); }),
            "[WeightAverage] the parameter \"weight\" (1, 2) learns, but none of the optimizers "
            "holds it; give the average all of the model's optimizers");
  EXPECT_EQ(thrown<Error>([&] { WeightAverage(other, half); }),
            "[WeightAverage] an optimizer holds the parameter \"bias\" (1,), which is not the "
            "model's");
  EXPECT_EQ(thrown<Error>([&] { WeightAverage(model, half, {.decay = 1}); }),
            "[WeightAverage] decay is 1; it must be at least 0 and below 1");
  model.weight.set_requires_grad(false);
  WeightAverage(model, half).update();  // what is frozen needs no average
}

TEST(WeightAverage, RefusesUpdatesAndScopesWhileItIsInTheModel) {
  Vector model;
  Sgd optimizer(model, {.lr = 1});
  WeightAverage average(model, optimizer), second(model, optimizer);
  EXPECT_EQ(thrown<Error>([&] { average.update(); }),
            "[WeightAverage] the buffer \"seen\" (1,) lies in another place now, perhaps that of a "
            "second average; a model has one");
  const AveragedWeights averaged(second);
  EXPECT_EQ(thrown<Error>([&] { second.update(); }),
            "[WeightAverage] the averages are in the model; update them when it has its own "
            "weights again");
  EXPECT_EQ(thrown<Error>([&] { const AveragedWeights another(second); }),
            "[AveragedWeights] the averages are in the model already; one scope at a time");
}

// Else the table of what is averaged would be written over, for this update and all after it.
TEST(WeightAverage, WantsOneBooleanThatSaysWhetherAStepIsGood) {
  Vector model;
  Sgd optimizer(model, {.lr = 1});
  WeightAverage average(model, optimizer, {.decay = 0.5, .warm_up = false});
  EXPECT_EQ(
      thrown<ShapeError>([&] { average.update(Tensor::zeros({3}, {.dtype = DType::boolean})); }),
      "[WeightAverage] is_finite is (3,) boolean cpu; wanted one boolean, as a StepGuard gives");
  EXPECT_EQ(thrown<ShapeError>([&] { average.update(Tensor::ones({})); }),
            "[WeightAverage] is_finite is () f32 cpu; wanted one boolean, as a StepGuard gives");
  EXPECT_EQ(average.updates(), 0);
  fill(model.weight.value, 3);
  average.update(Tensor::ones({}, {.dtype = DType::boolean}));
  const AveragedWeights averaged(average);
  EXPECT_EQ(floats(model.weight.value), (std::vector<float>{2, 2.5}));
}

// -- the trainer ----------------------------------------------------------------------------------

TensorDataset images() {
  random::manual_seed(9);
  const Tensor x = Tensor::empty({24, 6, 6, 2});
  init::normal_(x, 0, 1);
  std::vector<int32_t> labels;
  for (int32_t i = 0; i < 24; ++i) labels.push_back(i % 3);
  return TensorDataset(x, Tensor::from(labels, {24}), 3);
}

Sequential network() {
  return Sequential(Conv2d(2, 4, {.kernel = 3, .bias = false}), BatchNorm2d(4), ReLU(), Flatten(),
                    Linear(64, 3));
}

struct Trained {
  std::vector<std::vector<float>> state;
  std::vector<EpochReport> reports;
};

Trained train(DType dtype, bool averaged) {
  const DataLoader loader(images(), {.batch_size = 8, .shuffle = true, .seed = 3});
  random::manual_seed(6);
  Sequential model = network();
  model.to(dtype);
  Sgd optimizer(model, {.lr = 0.1, .momentum = 0.9});
  TrainerOptions options{.epochs = 3};
  if (averaged) options.average = WeightAverageOptions{.decay = 0.9};
  Trainer trainer(model, optimizer, options);
  Trained result{.reports = trainer.fit(loader, loader)};
  for (const auto& parameter : model.parameters()) {
    result.state.push_back(floats(parameter->value));
    if (parameter->master().defined()) result.state.push_back(floats(parameter->master()));
  }
  for (const NamedTensor& buffer : model.named_buffers())
    result.state.push_back(floats(buffer.tensor));
  return result;
}

TEST(Trainer, EvaluatesAveragesAndTrainsTheSameBits) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Trained plain = train(dtype, false), averaged = train(dtype, true);
    EXPECT_EQ(averaged.state, plain.state) << dtype;
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(averaged.reports[epoch].train_loss, plain.reports[epoch].train_loss);
      EXPECT_NE(averaged.reports[epoch].test_loss, plain.reports[epoch].test_loss);
    }
  }
}

}  // namespace
}  // namespace adret
