// What all optimizers share: arenas, untouched parameters, strays, groups, options.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adagrad.h>
#include <adret/optim/adam.h>
#include <adret/optim/lamb.h>
#include <adret/optim/lion.h>
#include <adret/optim/rmsprop.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "tests/support/expect_error.h"
#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<float>;

struct Two : Layer<Two> {
  Linear& used = add("used", Linear(3, 2));
  Linear& idle = add("idle", Linear(3, 2));
  Tensor forward(const Tensor& x) { return used(x); }
};

Tensor input() { return Tensor::from({1.f, 2.f, 3.f}, {1, 3}); }

TEST(Optimizer, StepsAllParametersWithOneKernelAndNoCopy) {
  Sequential net(Linear(3, 4), Linear(4, 4), Linear(4, 1));
  Sgd optimizer(net, {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step < 3; ++step) {
    sum(net(input())).backward();
    SeenKernels seen;
    optimizer.step();
    EXPECT_EQ(seen.counts(), (std::map<std::string, int>{{"sgd_step", 1}}));
    optimizer.zero_grad();
  }
}

TEST(Optimizer, EveryHandleFollowsIntoTheArena) {
  Linear fc(3, 2);
  const Tensor handle = fc.weight.value;
  const Values before = handle.to_vector();
  Sgd optimizer(fc, {.lr = 1});
  EXPECT_EQ(handle.to_vector(), before);
  sum(fc(input())).backward();
  optimizer.step();
  for (size_t i = 0; i < 6; ++i) {  // d(sum)/dw = x
    EXPECT_FLOAT_EQ(handle.to_vector()[i], before[i] - float(i % 3 + 1));
  }
  EXPECT_EQ(handle.data(), fc.weight.value.data());
}

TEST(Optimizer, ArenasReplaceTheParametersMemory) {
  MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  Linear fc(1000, 1000, {.bias = false});  // 4 MB
  const size_t before = pool.stats().current;
  {
    const Sgd plain(fc, {.lr = 0.1});
    // Gradients beside the values; the old values are gone. A little for the tables.
    EXPECT_NEAR(double(pool.stats().current - before), 4e6, 1e5);
  }
  const size_t after = pool.stats().current;
  EXPECT_NEAR(double(after), double(before), 1e5);
  const Adam adam(fc);
  EXPECT_NEAR(double(pool.stats().current - after), 3 * 4e6, 1e5);
}

TEST(Optimizer, LeavesParametersWithoutAGradientAlone) {
  const auto check = [](auto make) {
    Two model;
    auto optimizer = make(model);
    // One step for both, so that the idle ones have momentum.
    sum(model.used(input()) + model.idle(input())).backward();
    optimizer->step();
    optimizer->zero_grad();
    const Values weight = model.idle.weight.value.to_vector();
    const OptimizerState before = optimizer->state();
    const uint32_t version = model.idle.weight.value.version();
    sum(model(input())).backward();
    optimizer->step();
    EXPECT_EQ(model.idle.weight.value.to_vector(), weight);
    EXPECT_EQ(model.idle.weight.value.version(), version);
    const OptimizerState after = optimizer->state();
    int unchanged = 0;
    for (size_t i = 0; i < before.tensors.size(); ++i) {
      const std::string& name = before.tensors[i].name;  // parameters 2 and 3 are idle's
      if (name == "steps") {
        const auto steps = after.tensors[i].tensor.to_vector<int64_t>();
        EXPECT_EQ(steps, (std::vector<int64_t>{2, 2, 1, 1}));
      }
      if (!name.ends_with(".2") && !name.ends_with(".3")) continue;
      EXPECT_EQ(after.tensors[i].tensor.to_vector(), before.tensors[i].tensor.to_vector()) << name;
      ++unchanged;
    }
    EXPECT_GE(unchanged, 2);
  };
  check([](Two& m) {
    return std::make_unique<Sgd>(m, SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  });
  check([](Two& m) { return std::make_unique<Adam>(m, AdamOptions{.weight_decay = 0.1}); });
  check([](Two& m) { return std::make_unique<AdamW>(m); });
  check([](Two& m) { return std::make_unique<NAdam>(m); });
  check([](Two& m) { return std::make_unique<RAdam>(m); });
  check([](Two& m) { return std::make_unique<Rmsprop>(m, RmspropOptions{.momentum = 0.5}); });
  check([](Two& m) { return std::make_unique<Adagrad>(m); });
  check([](Two& m) { return std::make_unique<Lion>(m); });
  check([](Two& m) { return std::make_unique<Lamb>(m); });
}

// Weight decay does not move a frozen parameter either.
template <class Kind, class Options>
void expect_frozen(const Options& options) {
  Two model;
  Kind optimizer(model, options);
  const auto step = [&] {
    sum(model.used(input()) + model.idle(input())).backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  step();
  model.idle.set_requires_grad(false);
  const Values weight = model.idle.weight.value.to_vector();
  const Values used = model.used.weight.value.to_vector();
  step();
  EXPECT_EQ(model.idle.weight.value.to_vector(), weight) << optimizer.state().optimizer;
  EXPECT_NE(model.used.weight.value.to_vector(), used);
  model.idle.set_requires_grad(true);
  step();
  EXPECT_NE(model.idle.weight.value.to_vector(), weight);
}

TEST(Optimizer, LeavesFrozenParametersAlone) {
  expect_frozen<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  expect_frozen<Adam>(AdamOptions{.weight_decay = 0.1});
  expect_frozen<AdamW>(AdamWOptions{.weight_decay = 0.1});
  expect_frozen<NAdam>(NAdamOptions{.weight_decay = 0.1});
  expect_frozen<RAdam>(RAdamOptions{.weight_decay = 0.1});
  expect_frozen<Rmsprop>(RmspropOptions{.weight_decay = 0.1});
  expect_frozen<Adagrad>(AdagradOptions{.weight_decay = 0.1});
  expect_frozen<Lion>(LionOptions{.weight_decay = 0.1});
  expect_frozen<Lamb>(LambOptions{.weight_decay = 0.1});
}

TEST(Optimizer, WorksForFrozenParametersAndThoseThawedLater) {
  Two model;
  model.used.weight.set_requires_grad(false);
  Sgd optimizer(model, {.lr = 0.1});
  const auto step = [&] {
    sum(model(input())).backward();
    optimizer.step();
    optimizer.zero_grad();
  };
  const Values frozen = model.used.weight.value.to_vector();
  step();
  EXPECT_EQ(model.used.weight.value.to_vector(), frozen);
  model.used.weight.set_requires_grad(true);
  step();
  EXPECT_NE(model.used.weight.value.to_vector(), frozen);
}

TEST(Optimizer, TakesAGradientThatWasSetByHand) {
  Linear fc(1, 1, {.bias = false});
  const float before = fc.weight.value.item();
  Sgd optimizer(fc, {.lr = 0.5});
  fc.weight.value.set_grad(Tensor::from({2.f}, {1, 1}));
  optimizer.step();
  EXPECT_FLOAT_EQ(fc.weight.value.item(), before - 1);
  EXPECT_EQ(fc.weight.value.grad().item(), 2);
}

TEST(Optimizer, TheStepIsSeenBySavedTensors) {
  Linear fc(3, 2);
  Sgd optimizer(fc, {.lr = 0.1});
  Tensor x = input();
  x.set_requires_grad(true);
  const Tensor y = sum(fc(x));
  y.backward(true);
  optimizer.step();
  expect_error<Error>([&] { return y.backward(), 0; }, "was written to after the forward");
}

TEST(Optimizer, OwnsItsParametersUntilItGoes) {
  Two model;
  {
    Sgd optimizer(model, {.lr = 0.1});
    expect_error<Error>([&] { return Sgd(model, {.lr = 0.1}).lr(); },
                        "[optimizer] the parameter \"weight\" (2, 3) belongs to another optimizer");
    expect_error<Error>([&] { return model.to(DType::f64), 0; },
                        "[to] an optimizer holds the parameter \"used.weight\" in its arena; "
                        "convert the model first");
    expect_error<Error>(
        [&] {
          return model.used.weight.replace(Tensor::ones({2, 3})), 0;
        },
        "[replace] an optimizer holds the parameter \"weight\" (2, 3)");
    sum(model(input())).backward();
    optimizer.step();
  }
  model.to(DType::f64);
  Sgd next(model, {.lr = 0.1});
  sum(model(input())).backward();
  next.step();
}

TEST(Optimizer, FollowsAModelThatMoves) {
  Two model;
  Sgd optimizer(model, {.lr = 0.1});
  Two moved = std::move(model);
  const Values before = moved.used.weight.value.to_vector();
  sum(moved(input())).backward();
  optimizer.step();
  EXPECT_NE(moved.used.weight.value.to_vector(), before);
}

TEST(Optimizer, NoticesAReplacedValue) {
  Linear fc(3, 2);
  Sgd optimizer(fc, {.lr = 0.1});
  fc.weight.value = Tensor::ones({2, 3});
  expect_error<Error>([&] { return optimizer.step(), 0; },
                      "[optimizer] the value of the parameter \"weight\" (2, 3) was replaced");
}

struct Stray : Layer<Stray> {
  Linear& fc = add("fc", Linear(3, 5));
  Linear head = Linear(5, 2);  // not declared with add()
  Tensor forward(const Tensor& x) { return head(fc(x)); }
};

TEST(Optimizer, AnUndeclaredLayerIsAnErrorThatNamesItsShape) {
  Stray model;
  Sgd optimizer(model, {.lr = 0.1});
  sum(model(input())).backward();
  expect_error<Error>(
      [&] { return optimizer.step(), 0; },
      "[step] backward gave a gradient to 2 parameter(s) that no optimizer holds, the "
      "largest (2, 5), so they would never learn; declare the layer with add()");
  model.head.set_requires_grad(false);
  sum(model(input())).backward();
  EXPECT_NO_THROW(optimizer.step());
}

TEST(Optimizer, TwoModelsWithTwoOptimizersMayMeetInOneBackward) {
  Linear generator(3, 4), critic(4, 1);
  Sgd for_generator(generator, {.lr = 0.1}), for_critic(critic, {.lr = 0.1});
  for (int step = 0; step < 2; ++step) {
    sum(critic(generator(input()).detach())).backward();
    for_critic.step();
    for_critic.zero_grad();
    const Values before = critic.weight.value.to_vector();
    const Values drawn = generator.weight.value.to_vector();
    sum(critic(generator(input()))).backward();
    for_generator.step();
    for_generator.zero_grad();
    for_critic.zero_grad();
    EXPECT_EQ(critic.weight.value.to_vector(), before);
    EXPECT_NE(generator.weight.value.to_vector(), drawn);
  }
}

TEST(Optimizer, GradientsAccumulateInTheirPlace) {
  Linear fc(3, 2);
  Sgd optimizer(fc, {.lr = 0.1});
  sum(fc(input())).backward();
  sum(fc(input())).backward();
  EXPECT_EQ(fc.weight.value.grad().to_vector(), (Values{2, 4, 6, 2, 4, 6}));
  optimizer.zero_grad();
  EXPECT_FALSE(fc.weight.value.grad().defined());
  sum(fc(input())).backward();
  EXPECT_EQ(fc.weight.value.grad().to_vector(), (Values{1, 2, 3, 1, 2, 3}));
}

TEST(Optimizer, RefusesGroupsThatCannotWork) {
  const Sequential empty;
  expect_error<Error>([&] { return Sgd(empty, {.lr = 0.1}).lr(); },
                      "[optimizer] there are no parameters to optimize");
  Linear fc(1, 1);
  const auto all = fc.parameters();
  expect_error<Error>(
      [&] {
        return Sgd({{all, {.lr = 1}}, {{all[0]}, {.lr = 1}}}).lr();
      },
      "[optimizer] the parameter \"weight\" (1, 1) is in two groups");
  EXPECT_FALSE(fc.weight.in_arena);  // nothing was changed
  Sgd optimizer({{{all[0]}, {.lr = 1}}, {{all[1]}, {.lr = 2}}});
  EXPECT_EQ(optimizer.group_count(), 2u);
  EXPECT_EQ(optimizer.lr(1), 2);
  optimizer.set_lr(0.5, 1);
  EXPECT_EQ(optimizer.lr(0), 1);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  optimizer.set_lr(3);
  EXPECT_EQ(optimizer.lr(1), 3);
  expect_error<Error>([&] { return optimizer.lr(2); },
                      "[sgd] group 2 is not there; the optimizer has 2");
}

TEST(Optimizer, RefusesHyperParametersOutOfRange) {
  Linear fc(1, 1);
  const auto sgd = [&](const SgdOptions& o) { return [&fc, o] { return Sgd(fc, o).lr(); }; };
  expect_error<Error>(sgd({.lr = -1}), "[sgd] lr is -1; it must be finite and at least 0");
  expect_error<Error>(sgd({.lr = std::nan("")}), "[sgd] lr is nan");
  expect_error<Error>(sgd({.lr = 1, .momentum = 1.5}),
                      "[sgd] momentum is 1.5; it must lie in 0..1");
  expect_error<Error>(sgd({.lr = 1, .weight_decay = -1}), "[sgd] weight_decay is -1");
  expect_error<Error>(sgd({.lr = 1, .nesterov = true}), "[sgd] nesterov needs a momentum above 0");
  expect_error<Error>([&] { return Adam(fc, {.beta1 = 1}).lr(); },
                      "[adam] beta1 is 1; it must be at least 0 and below 1");
  expect_error<Error>([&] { return AdamW(fc, {.beta2 = -1}).lr(); }, "[adamw] beta2 is -1");
  expect_error<Error>([&] { return Adam(fc, {.epsilon = -1}).lr(); }, "[adam] epsilon is -1");
  expect_error<Error>([&] { return NAdam(fc, {.momentum_decay = -1}).lr(); },
                      "[nadam] momentum_decay is -1; it must be finite and at least 0");
  expect_error<Error>([&] { return RAdam(fc, {.beta1 = 2}).lr(); }, "[radam] beta1 is 2");
  expect_error<Error>([&] { return Rmsprop(fc, {.alpha = 1}).lr(); },
                      "[rmsprop] alpha is 1; it must be at least 0 and below 1");
  expect_error<Error>([&] { return Adagrad(fc, {.initial_accumulator_value = -1}).lr(); },
                      "[adagrad] initial_accumulator_value is -1");
  expect_error<Error>([&] { return Lion(fc, {.weight_decay = -1}).lr(); },
                      "[lion] weight_decay is -1");
  expect_error<Error>([&] { return Lamb(fc, {.beta2 = 1}).lr(); }, "[lamb] beta2 is 1");
  EXPECT_FALSE(fc.weight.in_arena);
  Sgd optimizer(fc, {.lr = 1});
  expect_error<Error>([&] { return optimizer.set_lr(-2), 0; }, "[sgd] lr is -2");
}

struct Narrow : Layer<Narrow> {
  explicit Narrow(const Values& start) : weight(parameter("weight", tensor(start))) {}
  static Tensor tensor(const Values& values) {
    return Tensor::from(values, {int64_t(values.size())});
  }
  Values values() const { return weight.value.to(DType::f32).to_vector(); }
  void set_grad(float each) const {
    const Shape& shape = weight.value.shape();
    weight.value.set_grad(Tensor::full(shape, each, {.dtype = weight.value.dtype()}));
  }
  Parameter& weight;
};

TEST(Masters, AddUpStepsThatAreTooSmallForTheValue) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    const float rate = dtype == DType::bf16 ? 0x1p-12f : 0x1p-15f;
    Narrow model({1, 2});
    model.to(dtype);
    Sgd optimizer(model, {.lr = rate});
    for (int step = 0; step < 256; ++step) {
      model.set_grad(-1);
      optimizer.step();
      // One step rounds back to where it came from.
      if (step > 0) continue;
      EXPECT_EQ(model.values(), (Values{1, 2})) << dtype;
    }
    EXPECT_EQ(model.values(), (Values{1 + 256 * rate, 2 + 256 * rate})) << dtype;
  }
}

TEST(Masters, AdamWalksAsFarAsInF32) {
  Narrow model({1, -2});
  model.to(DType::bf16);
  Adam optimizer(model, {.lr = 1e-4});
  for (int step = 0; step < 1000; ++step) {
    model.set_grad(0.5);
    optimizer.step();
  }
  // A constant gradient moves the value by lr in each step: 0.1, within the value's 2^-8 of it.
  EXPECT_NEAR(model.values()[0], 0.9, 0.9 / 256);
  EXPECT_NEAR(model.values()[1], -2.1, 2.1 / 256);
  const Values master = model.weight.master().to_vector();
  EXPECT_NEAR(master[0], 0.9, 2e-4);  // a thousand roundings in f32
  EXPECT_NEAR(master[1], -2.1, 2e-4);
}

TEST(Masters, AreTheValuesFromBeforeTheConversion) {
  const Values exact{1 + 0x1p-12f, 3 - 0x1p-20f};
  Narrow model(exact);
  model.to(DType::bf16);
  EXPECT_EQ(model.values(), (Values{1, 3}));
  {
    Sgd optimizer(model, {.lr = 0x1p-12f});
    model.set_grad(1);
    optimizer.step();
    EXPECT_EQ(model.values(), (Values{1, 3}));
    EXPECT_EQ(model.weight.master().to_vector(), (Values{1, 3 - 0x1p-20f - 0x1p-12f}));
  }
  model.to(DType::f32);
  EXPECT_EQ(model.values(), (Values{1, 3 - 0x1p-20f - 0x1p-12f}));
}

TEST(Masters, StartFromAValueThatWasMadeInSixteenBits) {
  Narrow model({1.5});
  const Tensor narrow = Tensor::full({1}, 0.25, {.dtype = DType::bf16});
  model.weight.replace(narrow);
  Sgd optimizer(model, {.lr = 0x1p-12f});
  EXPECT_EQ(model.weight.master().to_vector(), (Values{0.25}));
}

TEST(Masters, FollowAValueThatIsWrittenTo) {
  Narrow model({1});
  model.to(DType::bf16);
  Sgd optimizer(model, {.lr = 0x1p-12f});
  {
    const NoGrad no_grad;
    fill_(model.weight.value, 4);
  }
  EXPECT_FALSE(model.weight.master().defined());
  model.set_grad(1);
  optimizer.step();
  EXPECT_EQ(model.weight.master().to_vector(), (Values{4 - 0x1p-12f}));
  EXPECT_EQ(model.values(), (Values{4}));
}

TEST(Masters, AreNotMadeForWideParameters) {
  Narrow model({1});
  Sgd optimizer(model, {.lr = 1});
  EXPECT_FALSE(model.weight.master().defined());
}

}  // namespace
}  // namespace adret
