// Replayed steps against the same steps made eagerly, and everything that must not be replayed.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/flatten.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adagrad.h>
#include <adret/optim/adam.h>
#include <adret/optim/lamb.h>
#include <adret/optim/lion.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/rmsprop.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <adret/train/weight_average.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_allocator.h"
#include "tests/support/hashed.h"
#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

Sequential network() {
  // No bias before the norm, whose gradient would be rounding alone: Adam makes steps of it.
  return Sequential(Conv2d(2, 4, {.kernel = 3, .padding = 1, .bias = false}), BatchNorm2d(4),
                    ReLU(), Flatten(), Dropout(0.25), Linear(4 * 6 * 6, 3));
}

Tensor images(int64_t step, int64_t count = 5) {
  const std::vector<double> values = hashed_unit(std::to_string(step), count * 72);
  return Tensor::from(values, {count, 6, 6, 2}).to(DType::f32);
}
Tensor labels(int64_t step, int64_t count = 5) {
  std::vector<int32_t> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(int32_t((step + i * i) % 3));
  return Tensor::from(list, {count});
}

std::vector<float> state_of(const Module& model) {
  std::vector<float> all;
  const auto append = [&](const Tensor& tensor) {
    const std::vector<float> values = tensor.to(DType::f32).to_vector();
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const auto& parameter : model.parameters()) append(parameter->value);
  for (const NamedTensor& buffer : model.named_buffers()) append(buffer.tensor);
  return all;
}

struct Trajectory {
  std::vector<float> losses, state;
  StepReport report;
};

// Twelve steps with a rate of their own each.
template <class MakeOptimizer>
Trajectory train(const StepOptions& options, const MakeOptimizer& make_optimizer) {
  random::manual_seed(5);
  Sequential model = network();
  auto optimizer = make_optimizer(model);
  Step step(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(model(x), y);
        loss.backward();
        optimizer.step();
        return loss;
      },
      options);
  Trajectory run;
  for (int64_t i = 0; i < 12; ++i) {
    random::begin_step(i);
    optimizer.set_lr(0.1 / double(i + 1));
    run.losses.push_back(step(images(i), labels(i)).item());
  }
  run.state = state_of(model);
  run.report = step.report();
  return run;
}

template <class MakeOptimizer>
void expect_replays(const MakeOptimizer& make_optimizer) {
  const Trajectory eager = train({.mode = StepMode::eager}, make_optimizer);
  const Trajectory replayed = train({.mode = StepMode::graph}, make_optimizer);
  expect_as_eager(replayed.losses, eager.losses);
  expect_as_eager(replayed.state, eager.state);
  EXPECT_EQ(eager.report.replays, 0);
  // The first call uploads the table of the optimizer, so the second and third are compared.
  EXPECT_EQ(replayed.report.replays, 9) << replayed.report.reason;
  EXPECT_EQ(replayed.report.reason, "");
  EXPECT_GE(replayed.report.kernels, 10u);
  EXPECT_GE(replayed.report.planned_bytes, replayed.report.peak_bytes);
}

TEST(Step, ReplaysComputeWhatEagerStepsDo) {
  expect_replays([](Sequential& model) {
    return Sgd(model, {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
  });
  expect_replays([](Sequential& model) { return Adam(model, {.lr = 0.1}); });
}

// What changes from step to step, as counts and products of momenta, is on the device.
TEST(Step, ReplaysTakeEveryOptimizer) {
  expect_replays([](Sequential& model) { return NAdam(model, {.weight_decay = 1e-3}); });
  expect_replays([](Sequential& model) { return RAdam(model, {.beta2 = 0.9}); });
  expect_replays([](Sequential& model) {
    return Rmsprop(model, {.alpha = 0.9, .epsilon = 0.1, .momentum = 0.5, .centered = true});
  });
  expect_replays([](Sequential& model) { return Adagrad(model, {.lr_decay = 0.1}); });
  expect_replays([](Sequential& model) { return Lion(model, {.weight_decay = 0.1}); });
  expect_replays([](Sequential& model) { return Lamb(model, {.weight_decay = 0.1}); });
}

TEST(Step, TheLastPartialBatchHasAListOfItsOwn) {
  random::manual_seed(1);
  Sequential model = network();
  Sgd optimizer(model, {.lr = 0.01});
  Step step([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    for (int64_t i = 0; i < 4; ++i) {
      random::begin_step(epoch * 4 + i);
      step(images(i, i == 3 ? 2 : 5), labels(i, i == 3 ? 2 : 5));
    }
    EXPECT_EQ(step.report().calls, epoch + 1);
  }
  EXPECT_EQ(step.report().replays, 3);
}

TEST(Step, ReturnsMemoryOfItsOwn) {
  const Tensor weight = Tensor::full({3}, 2.0);
  Step step([&](const Tensor& x) { return x * weight; });
  std::vector<Tensor> results;
  for (int i = 0; i < 6; ++i) results.push_back(step(Tensor::full({3}, double(i))));
  EXPECT_EQ(step.report().replays, 4);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(results[size_t(i)].to_vector(), std::vector<float>(3, float(2 * i)));
  }
}

TEST(Step, TakesAListAndReturnsAList) {
  Step step([](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] + in[1], in[0]};
  });
  for (int i = 0; i < 4; ++i) {
    const std::vector<Tensor> out = step.run({Tensor::full({2}, i), Tensor::full({2}, 10.0)});
    EXPECT_EQ(out[0].to_vector(), std::vector<float>(2, float(i + 10)));
    EXPECT_EQ(out[1].to_vector(), std::vector<float>(2, float(i)));
  }
  EXPECT_EQ(step.report().replays, 2);
  Step two([](const Tensor& a, const Tensor& b) { return a + b; });
  EXPECT_EQ(thrown<Error>([&] { two(Tensor::ones({1})); }),
            "[step] the function takes 2 tensors, got 1");
  const Tensor wants = Tensor::ones({1}).set_requires_grad(true);
  EXPECT_THAT(thrown<Error>([&] { two(wants, wants); }),
              HasSubstr("[step] input 0 (1,) f32 cpu requires a gradient"));
}

// -- steps that stay eager ------------------------------------------------------------------------

TEST(Step, GoesOnEagerlyWhereItCannotReplay) {
  int64_t calls = 0;
  Step step([&](const Tensor& x) {
    ++calls;
    return x * sum(x).item();
  });
  for (int i = 1; i <= 30; ++i) {
    EXPECT_EQ(step(Tensor::full({2}, i)).to_vector(), std::vector<float>(2, float(2 * i * i)));
  }
  EXPECT_EQ(calls, 30);
  EXPECT_EQ(step.report().replays, 0);
  EXPECT_THAT(step.report().reason, HasSubstr("it reads 4 bytes on the host"));
}

TEST(Step, AnExceptionLeavesItUsable) {
  bool fails = true;
  Step step([&](const Tensor& x) {
    const Tensor y = x * 3;
    if (fails) throw Error("not yet");
    return y;
  });
  EXPECT_EQ(thrown<Error>([&] { step(Tensor::ones({1})); }), "not yet");
  fails = false;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(Tensor::full({1}, i)).item(), float(3 * i));
  EXPECT_EQ(step.report().replays, 2);
}

TEST(Step, AStepWithinAStepIsPartOfIt) {
  const Tensor two = Tensor::full({1}, 2.0);
  Step inner([&](const Tensor& x) { return x * two; });
  Step outer([&](const Tensor& x) { return inner(x) + two; });
  for (int i = 0; i < 6; ++i) inner(Tensor::ones({1}));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(outer(Tensor::full({1}, i)).item(), float(2 * i + 2));
  EXPECT_EQ(outer.report().replays, 4);
}

TEST(Step, ADecoratorSeesEveryCallOfAReplay) {
  Step step([](const Tensor& x) { return x * 2 + 1; });
  for (int i = 0; i < 4; ++i) step(Tensor::ones({1}));
  const size_t kernels = step.report().kernels;
  const Tensor four = Tensor::full({1}, 4.0);
  SeenKernels seen;
  EXPECT_EQ(step(four).item(), 9);
  EXPECT_EQ(seen.calls.size(), kernels + 2);  // its input and output are copied
}

TEST(Step, LossScalingSkipsInReplays) {
  Linear layer(1, 1, {.bias = false});
  {
    const NoGrad off;
    fill_(layer.weight.value, 1);
  }
  layer.to(DType::f16);
  Sgd optimizer(layer, {.lr = 0.5});
  LossScaler scaler(optimizer, {.initial = 4, .growth_interval = 1000});
  Step step([&](const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = sum(layer(x));
    scaler.scale(loss).backward();
    scaler.unscale();
    optimizer.step();
    return loss;
  });
  for (int i = 0; i < 6; ++i) step(Tensor::ones({1, 1}));
  ASSERT_GT(step.report().replays, 0) << step.report().reason;
  const float weight = layer.weight.value.to(DType::f32).item();
  EXPECT_EQ(weight, 1 - 6 * 0.5f);
  step(Tensor::full({1, 1}, 3e4));  // times the scale beyond what f16 holds
  EXPECT_EQ(layer.weight.value.to(DType::f32).item(), weight);
  EXPECT_EQ(scaler.state().scale, 2);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  step(Tensor::ones({1, 1}));
  EXPECT_EQ(layer.weight.value.to(DType::f32).item(), weight - 0.5f);
}

TEST(Step, AveragesGoOnInReplays) {
  const auto averaged = [](StepMode mode) {
    random::manual_seed(2);
    Sequential model = network();
    Sgd optimizer(model, {.lr = 0.05});
    WeightAverage average(model, optimizer, {.decay = 0.9});
    Step step(
        [&](const Tensor& x, const Tensor& y) {
          optimizer.zero_grad();
          const Tensor loss = cross_entropy(model(x), y);
          loss.backward();
          optimizer.step();
          average.update();
          return loss;
        },
        {.mode = mode});
    for (int64_t i = 0; i < 8; ++i) {
      random::begin_step(i);
      step(images(i), labels(i));
    }
    EXPECT_EQ(step.report().replays > 0, mode == StepMode::graph) << step.report().reason;
    const AveragedWeights in_model(average);
    return state_of(model);
  };
  expect_as_eager(averaged(StepMode::graph), averaged(StepMode::eager));
}

TEST(Step, ConstantsAreFilledOnce) {
  // The ones that a backward pass begins with, and zeros that are added to.
  Linear layer(2, 1);
  layer.zero_grad();
  Step step([&](const Tensor& x) {
    layer.zero_grad();
    const Tensor zeros = Tensor::zeros({1, 1});
    const Tensor y = layer(x) + zeros;
    return std::vector<Tensor>{sum(y), zeros, Tensor::full({2}, 3.0)};
  });
  for (int i = 0; i < 6; ++i) {
    const std::vector<Tensor> out = step.run({Tensor::full({1, 2}, double(i))});
    EXPECT_EQ(out[1].to_vector(), std::vector<float>{0}) << i;
    EXPECT_EQ(out[2].to_vector(), (std::vector<float>{3, 3})) << i;
  }
  EXPECT_EQ(step.report().replays, 4) << step.report().reason;
  EXPECT_EQ(step.report().kernels, 3u);  // linear, addition and sum
}

TEST(Step, GoesOnEagerlyWhereAReplayHasNoRoom) {
  constexpr int64_t n = 1 << 18;  // 1 MiB
  FakeAllocator raw(size_t(n) * 4 * 5 / 2);
  MemoryPool pool("small", raw, {.pass_through = true});
  const Tensor x = Tensor::ones({n});
  const auto calls = [&](StepMode mode) {
    const PoolScope scope(Device::cpu(), pool);
    Step step([](const Tensor& in) { return in * 2; }, {.mode = mode});
    for (int i = 0; i < 5; ++i) EXPECT_EQ(step(x).to_vector(), std::vector<float>(n, 2));
    return step.report();
  };
  const StepReport report = calls(StepMode::automatic);
  EXPECT_EQ(report.replays, 0);
  EXPECT_THAT(report.reason, HasSubstr("there is no room for a replay: [memory] small has no"));
  EXPECT_THAT(thrown<OutOfMemory>([&] { calls(StepMode::graph); }), HasSubstr("small has no room"));
}

}  // namespace
}  // namespace adret
