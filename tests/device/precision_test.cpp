// Loss scaling, averages and accumulation on a second device: what the CPU does.
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/random.h>
#include <adret/layers/init.h>
#include <adret/layers/models/resnet.h>
#include <adret/optim/adam.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>

#include <limits>
#include <memory>

#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

struct Precision : OnSecondDevice {};

// A residual block with a head.
struct Net : Layer<Net> {
  BasicBlock& block = add("block", BasicBlock(3, 8, 2));
  Linear& last = add("last", Linear(8, 4));
  Tensor forward(const Tensor& x) { return last(global_avg_pool2d(block(x))); }
};

TensorDataset images() {
  random::manual_seed(9);
  const Tensor x = Tensor::empty({40, 8, 8, 3});
  init::normal_(x, 0, 1);
  std::vector<int32_t> labels;
  for (int32_t i = 0; i < 40; ++i) labels.push_back(i * 3 % 4);
  return TensorDataset(x, Tensor::from(labels, {40}), 4);
}

struct Trained {
  std::vector<EpochReport> reports;
  std::vector<std::vector<double>> averages, weights;
};

Trained train(Device device, DType dtype) {
  const DataLoader loader(images(),
                          {.batch_size = 8, .shuffle = true, .seed = 3, .device = device});
  random::manual_seed(6);
  Net model;
  model.to(dtype);
  model.to(device);
  Sgd optimizer(model, {.lr = 0.05, .momentum = 0.9});
  Trainer trainer(model, optimizer,
                  {.epochs = 2,
                   .accumulate = 2,
                   .clip_norm = 1,
                   .loss_scale = LossScaleOptions{.initial = 1024},
                   .average = WeightAverageOptions{.decay = 0.9},
                   .best_weights = BestWeightsOptions{.restore = false}});
  Trained result{.reports = trainer.fit(loader, loader)};
  for (const auto& parameter : model.parameters()) {
    result.weights.push_back(values_of(parameter->exact()));
  }
  const AveragedWeights averaged(*trainer.average());
  for (const auto& parameter : model.parameters()) {
    result.averages.push_back(values_of(parameter->exact()));
  }
  for (const NamedTensor& buffer : model.named_buffers()) {
    result.averages.push_back(values_of(buffer.tensor));
  }
  return result;
}

TEST_F(Precision, TrainsAsOnTheCpu) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Trained here = train(Device::cpu(), dtype), there = train(second, dtype);
    // f32: six steps; 16 bits round values and gradients by 2^-9 or 2^-12 in each of six layers.
    const double tolerance = dtype == DType::f32 ? 1e-4 : 0.05;
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      EXPECT_NEAR(there.reports[epoch].train_loss, here.reports[epoch].train_loss, tolerance);
      EXPECT_NEAR(*there.reports[epoch].test_loss, *here.reports[epoch].test_loss, tolerance);
      EXPECT_EQ(there.reports[epoch].skipped_steps, 0);
    }
    for (size_t i = 0; i < here.weights.size(); ++i) {
      EXPECT_LE(relative_difference(there.weights[i], here.weights[i]), tolerance) << dtype;
    }
    for (size_t i = 0; i < here.averages.size(); ++i) {
      EXPECT_LE(relative_difference(there.averages[i], here.averages[i]), tolerance) << dtype;
    }
  }
}

// The step is called off on the device alone: weights, masters and state stay bit for bit.
TEST_F(Precision, SkipsAStepThatOverflowsWithoutATrace) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    random::manual_seed(6);
    Net model;
    model.to(dtype);
    model.to(second);
    Adam optimizer(model);
    LossScaler scaler(optimizer, {.initial = 1024});
    const auto state = [&] {
      std::vector<std::vector<double>> all;
      for (const auto& parameter : model.parameters()) {
        all.push_back(values_of(parameter->value));
        all.push_back(values_of(parameter->exact()));
      }
      for (const NamedTensor& part : optimizer.state().tensors) {
        all.push_back(values_of(part.tensor));
      }
      return all;
    };
    const auto step = [&](double spoil) {
      optimizer.zero_grad();
      (void)scaler.scale(
          sum(model.last.bias.value));  // of some loss; the gradients are set by hand
      for (const auto& parameter : model.parameters()) {
        parameter->value.set_grad(Tensor::full(
            parameter->value.shape(), 512, {.dtype = parameter->value.dtype(), .device = second}));
      }
      model.last.bias.value.set_grad(Tensor::full({4}, spoil, {.dtype = dtype, .device = second}));
      scaler.unscale();
      optimizer.clip_norm(1);
      optimizer.step();
    };
    step(512);
    const auto before = state();
    step(std::numeric_limits<double>::infinity());
    EXPECT_EQ(state(), before) << dtype;
    EXPECT_EQ(scaler.state().scale, 512);
    EXPECT_EQ(scaler.skipped_steps(), 1);
    step(256);
    EXPECT_NE(state(), before) << dtype;
  }
}

}  // namespace
}  // namespace adret
