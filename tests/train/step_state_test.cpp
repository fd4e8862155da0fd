// What changes between replayed steps: modes, gradients, weights, state, what else draws.
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
#include <adret/optim/adam.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <adret/train/weight_average.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/support/expect_error.h"
#include "tests/support/fake_allocator.h"
#include "tests/support/hashed.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

struct Trained {
  Linear layer{2, 1};
  std::optional<Sgd> optimizer{std::in_place, layer, SgdOptions{.lr = 0.5}};
  int64_t runs = 0;
  bool clears = true;
  Step step{[this](const Tensor& x) {
    ++runs;
    if (clears) optimizer->zero_grad();
    const Tensor loss = sum(layer(x));
    loss.backward();
    optimizer->step();
    return loss;
  }};
  Trained() {
    const NoGrad off;
    fill_(layer.weight.value, 1);
    fill_(layer.bias.value, 0);
  }
  float call() { return step(Tensor::ones({1, 2})).item(); }
  void until_it_replays() {
    for (int i = 0; i < 6; ++i) call();
    ASSERT_GT(step.report().replays, 0) << step.report().reason;
    runs = 0;
  }
};

TEST(StepState, ModesAndFrozenParametersAreComparedAnew) {
  Trained trained;
  trained.until_it_replays();
  trained.call();
  EXPECT_EQ(trained.runs, 0);
  trained.layer.eval();
  trained.layer.train();
  trained.call();  // one eager call finds nothing changed
  EXPECT_EQ(trained.runs, 1);
  trained.call();
  EXPECT_EQ(trained.runs, 1);

  trained.layer.weight.set_requires_grad(false);
  const auto frozen = trained.layer.weight.value.to_vector();
  const float bias = trained.layer.bias.value.item();
  for (int i = 0; i < 5; ++i) trained.call();
  EXPECT_EQ(trained.layer.weight.value.to_vector(), frozen);
  EXPECT_EQ(trained.layer.bias.value.item(), bias - 5 * 0.5f);
  EXPECT_GT(trained.step.report().replays, 0);
  trained.layer.weight.set_requires_grad(true);
  trained.call();
  EXPECT_EQ(trained.layer.weight.value.to_vector()[0], frozen[0] - 0.5f);
}

TEST(StepState, GradientsOfOthersAreNotLost) {
  // Without zero_grad within, the gradients add up only as long as nobody clears them outside.
  Trained trained;
  trained.clears = false;
  float weight = 1, gradient = 0;
  for (int i = 0; i < 14; ++i) {
    if (i % 7 == 6) {
      trained.optimizer->zero_grad();
      gradient = 0;
    }
    trained.call();
    gradient += 1;
    weight -= 0.5f * gradient;
    EXPECT_EQ(trained.layer.weight.value.to_vector()[0], weight) << i;
  }
  EXPECT_GT(trained.step.report().replays, 0) << trained.step.report().reason;
}

TEST(StepState, StepsOfTheOptimizerMayStandOutside) {
  Linear layer(2, 1);
  {
    const NoGrad off;
    fill_(layer.weight.value, 1);
  }
  Sgd optimizer(layer, {.lr = 0.5});
  Step step([&](const Tensor& x) {
    const Tensor loss = sum(layer(x));
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    step(Tensor::ones({1, 2}));
    optimizer.step();
    EXPECT_EQ(layer.weight.value.to_vector()[1], 1 - 0.5f * float(i + 1));
  }
  EXPECT_GT(step.report().replays, 0) << step.report().reason;
}

TEST(StepState, WrittenWeightsAreUsed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Linear layer(2, 1);
    layer.to(dtype);
    Sgd optimizer(layer, {.lr = 0.5});
    Step step([&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = sum(layer(x));
      loss.backward();
      optimizer.step();
      return loss;
    });
    for (int i = 0; i < 6; ++i) step(Tensor::ones({1, 2}));
    ASSERT_GT(step.report().replays, 0) << step.report().reason;
    {
      const NoGrad off;
      fill_(layer.weight.value, 8);
    }
    step(Tensor::ones({1, 2}));
    EXPECT_EQ(layer.weight.value.to(DType::f32).to_vector()[0], 7.5f) << name(dtype);
  }
}

TEST(StepState, LoadedStateIsUsed) {
  Linear layer(2, 1);
  Sgd optimizer(layer, {.lr = 0.5, .momentum = 0.5});
  Step step([&](const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = sum(layer(x));
    loss.backward();
    optimizer.step();
    return loss;
  });
  const OptimizerState fresh = optimizer.state();  // no momentum yet
  const Tensor x = Tensor::ones({1, 2});
  for (int i = 0; i < 6; ++i) step(x);
  ASSERT_GT(step.report().replays, 0) << step.report().reason;
  optimizer.load_state(fresh);
  const float weight = layer.weight.value.to_vector()[0];
  step(x);  // the gradient is 1, and so is the momentum
  EXPECT_EQ(layer.weight.value.to_vector()[0], weight - 0.5f);
  step(x);
  EXPECT_EQ(layer.weight.value.to_vector()[0], weight - 0.5f - 0.75f);
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_EQ(step.report().reason, "");
}

TEST(StepState, SavedTensorsNoticeAReplay) {
  Trained trained;
  const Tensor x = Tensor::ones({1, 2}).set_requires_grad(true);
  trained.until_it_replays();
  const Tensor y = trained.layer(x);
  trained.call();
  EXPECT_EQ(trained.runs, 0);
  EXPECT_THAT(thrown<Error>([&] { sum(y).backward(); }), HasSubstr("was written to"));
}

TEST(StepState, GradientsThatAppearAreUsed) {
  Linear a(2, 1), b(2, 1);
  {
    const NoGrad off;
    fill_(b.weight.value, 1);
  }
  std::vector<std::shared_ptr<Parameter>> both = a.parameters();
  for (const auto& parameter : b.parameters()) both.push_back(parameter);
  Sgd optimizer({{both, {.lr = 1}}});
  Step step([&](const Tensor& x) {
    const Tensor y = sum(a(x));
    y.backward();
    optimizer.step();
    return y;
  });
  const Tensor x = Tensor::ones({1, 2});
  for (int i = 0; i < 8; ++i) {
    optimizer.zero_grad();
    if (i == 7) b.weight.value.set_grad(Tensor::ones({1, 2}));
    step(x);
  }
  EXPECT_GT(step.report().replays, 0);
  EXPECT_EQ(b.weight.value.to_vector(), (std::vector<float>{0, 0}));
}

TEST(StepState, DropoutBehindAReplayGoesOnCounting) {
  const auto masks = [](StepMode mode) {
    random::manual_seed(3);
    Dropout layer(0.5);
    Step step([&](const Tensor& x) { return layer(x); }, {.mode = mode});
    std::vector<float> all;
    for (int64_t i = 0; i < 6; ++i) {
      random::begin_step(i);
      for (const Tensor& y : {step(Tensor::ones({16})), layer(Tensor::ones({16}))}) {
        const std::vector<float> values = y.to_vector();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    EXPECT_EQ(step.report().replays > 0, mode == StepMode::graph);
    return all;
  };
  EXPECT_EQ(masks(StepMode::eager), masks(StepMode::graph));
}

TEST(StepState, ReturnsCopiesOfItsInputs) {
  Step step([](const Tensor& x) { return std::vector<Tensor>{x, x * 2}; });
  std::vector<Tensor> first;
  for (int i = 0; i < 5; ++i) first.push_back(step.run({Tensor::full({1}, double(i))})[0]);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(first[size_t(i)].item(), float(i));
}

TEST(StepState, RefusesToWriteIntoItsInputs) {
  for (const StepMode mode : {StepMode::eager, StepMode::automatic}) {
    Step step(
        [](const Tensor& x) {
          const NoGrad off;
          fill_(x, 7);
          return x * 2;
        },
        {.mode = mode});
    EXPECT_THAT(thrown<Error>([&] { step(Tensor::ones({2})); }),
                HasSubstr("[step] the function wrote into input 0 (2,) f32 cpu"));
  }
}

TEST(StepState, MastersAreNotLostToWritesBeforeIt) {
  Linear layer(1, 1, {.bias = false});
  layer.to(DType::bf16);
  const auto write = [&] {
    const NoGrad off;
    fill_(layer.weight.value, 1);
  };
  write();
  Sgd optimizer(layer, {.lr = 0.001});
  Step step([&](const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = sum(layer(x));
    loss.backward();
    optimizer.step();
    return loss;
  });
  const Tensor x = Tensor::ones({1, 1});
  for (int i = 0; i < 3; ++i) write(), step(x);
  for (int i = 0; i < 8; ++i) step(x);
  // One step behind the last write and eight more, each too small for bf16.
  EXPECT_NEAR(layer.weight.exact().item(), 1 - 9 * 0.001, 1e-6);
}

TEST(StepState, TheAveragesInTheModelAreNoticed) {
  Linear layer(2, 1);
  Sgd optimizer(layer, {.lr = 0.1});
  WeightAverage average(layer, optimizer);
  Step step([&](const Tensor& x) {
    optimizer.zero_grad();
    const Tensor loss = sum(layer(x));
    loss.backward();
    optimizer.step();
    average.update();
    return loss;
  });
  const Tensor x = Tensor::ones({1, 2});
  for (int i = 0; i < 6; ++i) step(x);
  ASSERT_GT(step.report().replays, 0) << step.report().reason;
  const AveragedWeights in_model(average);
  EXPECT_THAT(thrown<Error>([&] { step(x); }), HasSubstr("the averages are in the model"));
}

TEST(StepState, FewListsAreKept) {
  Step step([](const Tensor& x) { return x * 2; });
  const auto call = [&](int64_t size) {
    const Tensor x = Tensor::ones({size});
    for (int i = 0; i < 4; ++i) step(x);
  };
  for (int64_t size = 1000; size < 1020; ++size) call(size);
  const size_t before = pool_for(Device::cpu()).stats().current;
  for (int64_t size = 1020; size < 1060; ++size) call(size);
  EXPECT_LE(pool_for(Device::cpu()).stats().current, before + 8 * 1024);
}

TEST(StepState, MemoryIsFlat) {
  Trained trained;
  trained.until_it_replays();
  const Tensor x = Tensor::ones({1, 2});
  const MemoryStats before = pool_for(Device::cpu()).stats();
  for (int i = 0; i < 1000; ++i) trained.step(x);
  const MemoryStats after = pool_for(Device::cpu()).stats();
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.current, before.current);
  trained.step.forget();
  EXPECT_LT(pool_for(Device::cpu()).stats().current, before.current);
}

}  // namespace
}  // namespace adret
