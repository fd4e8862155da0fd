// Replayed steps on a second device: captured ones beside those made call by call, and eager ones.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/compute_mode.h>
#include <adret/core/random.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/layers/models/resnet.h>
#include <adret/layers/models/tiny_resnet.h>
#include <adret/optim/adam.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/muon.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/hashed.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

struct ReplayedStep : OnSecondDevice {
  // Replays are captured there.
  static bool has_graphs() { return test_device() == TestDevice::cuda; }
};

struct Recipe {
  std::function<std::unique_ptr<Module>()> build;
  Shape images;
  DType dtype = DType::f32;
  bool scales = false;  // the loss
};

struct Trajectory {
  std::vector<float> losses;
  std::vector<double> state;
  StepReport report;
};

Trajectory train(const Recipe& recipe, const StepOptions& options, int64_t steps = 8) {
  random::manual_seed(5);
  const std::unique_ptr<Module> model = recipe.build();
  model->to(second);
  model->to(recipe.dtype);
  Sgd optimizer(*model, {.lr = 0.01, .momentum = 0.9});
  std::optional<LossScaler> scaler;
  if (recipe.scales) scaler.emplace(optimizer, LossScaleOptions{.initial = 1024});
  Step step(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(model->call(x), y);
        (scaler ? scaler->scale(loss) : loss).backward();
        if (scaler) scaler->unscale();
        optimizer.clip_norm(5);
        optimizer.step();
        return loss;
      },
      options);
  Trajectory run;
  for (int64_t i = 0; i < steps; ++i) {
    random::begin_step(i);
    optimizer.set_lr(0.02 / double(i + 1));
    const int64_t n = recipe.images.numel();
    const Tensor images = Tensor::from(hashed_unit(std::to_string(i), n), recipe.images);
    std::vector<int32_t> labels;
    for (int64_t k = 0; k < recipe.images[0]; ++k) labels.push_back(int32_t((k * 7 + i) % 10));
    const Tensor loss =
        step(images.to(DType::f32).to(second), Tensor::from(labels, {recipe.images[0]}).to(second));
    run.losses.push_back(loss.to(DType::f32).item());
  }
  for (const auto& parameter : model->parameters()) {
    const std::vector<double> values = values_of(parameter->value);
    run.state.insert(run.state.end(), values.begin(), values.end());
  }
  run.report = step.report();
  return run;
}

void expect_replays(const Recipe& recipe) {
  const Trajectory captured = train(recipe, {.mode = StepMode::graph});
  const Trajectory listed = train(recipe, {.mode = StepMode::graph, .capture = false});
  const Trajectory eager = train(recipe, {.mode = StepMode::eager});
  EXPECT_GE(captured.report.replays, 4) << captured.report.reason;
  EXPECT_EQ(captured.report.captured, ReplayedStep::has_graphs()) << captured.report.reason;
  EXPECT_FALSE(listed.report.captured);
  EXPECT_EQ(captured.losses, listed.losses);
  EXPECT_EQ(captured.state, listed.state);
  const double tolerance = recipe.dtype == DType::f32 ? 1e-4 : 2e-2;
  expect_as_eager(captured.losses, eager.losses, tolerance);
  expect_as_eager(captured.state, eager.state, tolerance);
}

std::unique_ptr<Module> lenet() { return std::make_unique<LeNet>(); }
std::unique_ptr<Module> cnn() { return std::make_unique<MnistCnn>(); }
// A small one where the CPU computes it.
std::unique_ptr<Module> resnet() {
  if (ReplayedStep::has_graphs()) return std::make_unique<ResNet>(resnet18());
  return std::make_unique<TinyResNet>();
}

TEST_F(ReplayedStep, LeNet) { expect_replays({.build = lenet, .images = {16, 28, 28, 1}}); }
TEST_F(ReplayedStep, CnnWithDropout) { expect_replays({.build = cnn, .images = {16, 28, 28, 1}}); }
TEST_F(ReplayedStep, ResNetInBf16) {
  const int64_t batch = has_graphs() ? 8 : 2;
  expect_replays({.build = resnet, .images = {batch, 32, 32, 3}, .dtype = DType::bf16});
}
TEST_F(ReplayedStep, LeNetInF16WithLossScaling) {
  expect_replays({.build = lenet, .images = {16, 28, 28, 1}, .dtype = DType::f16, .scales = true});
}

TEST_F(ReplayedStep, MuonBesideAnotherOptimizer) {
  const auto run = [](StepMode mode) {
    random::manual_seed(5);
    LeNet model;
    model.to(second);
    std::vector<std::shared_ptr<Parameter>> rest;
    for (const auto& parameter : model.parameters()) {
      if (parameter != model.conv2.weight.shared_from_this()) rest.push_back(parameter);
    }
    Adam adam({{rest, {.lr = 1e-3}}});
    Muon muon({{{model.conv2.weight.shared_from_this()}, {.lr = 0.02}}});
    Step step(
        [&](const Tensor& x, const Tensor& y) {
          adam.zero_grad();
          muon.zero_grad();
          const Tensor loss = cross_entropy(model(x), y);
          loss.backward();
          adam.step();
          muon.step();
          return loss;
        },
        {.mode = mode});
    const Tensor images =
        Tensor::from(hashed_unit("muon", 16 * 784), {16, 28, 28, 1}).to(DType::f32).to(second);
    const Tensor labels = Tensor::full({16}, 3, {.dtype = DType::i32, .device = second});
    std::vector<float> losses;
    for (int64_t i = 0; i < 8; ++i) losses.push_back(step(images, labels).item());
    EXPECT_EQ(step.report().replays > 0, mode == StepMode::graph) << step.report().reason;
    return losses;
  };
  expect_as_eager(run(StepMode::graph), run(StepMode::eager), 1e-3);
}

TEST_F(ReplayedStep, MemoryIsFlat) {
  const Tensor weight = Tensor::full({64, 64}, 0.5, {.device = second});
  Step step([&](const Tensor& x) { return sum(relu(matmul(x, weight)) * 2); });
  const Tensor x = Tensor::full({64, 64}, 1.0, {.device = second});
  for (int i = 0; i < 5; ++i) step(x);
  EXPECT_EQ(step(x).item(), 64 * 64 * 64);
  const MemoryStats before = pool_for(second).stats();
  for (int i = 0; i < 1000; ++i) step(x);
  const MemoryStats after = pool_for(second).stats();
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.current, before.current);
}

// What is read in a step is found where a device is waited for, too.
TEST_F(ReplayedStep, ReadsAreNamed) {
  Step step([](const Tensor& x) { return x * double(sum(x).item()); }, {.mode = StepMode::graph});
  const Tensor x = Tensor::full({4}, 1.0, {.device = second});
  EXPECT_THAT(thrown<Error>([&] {
                for (int i = 0; i < 4; ++i) step(x);
              }),
              testing::HasSubstr("it reads 4 bytes on the host in the step"));
}

}  // namespace
}  // namespace adret
