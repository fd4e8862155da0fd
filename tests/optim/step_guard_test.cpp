// Steps that are not finite change nothing, whatever the optimizer.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/optim/adagrad.h>
#include <adret/optim/adam.h>
#include <adret/optim/lamb.h>
#include <adret/optim/lion.h>
#include <adret/optim/loss_scale.h>
#include <adret/optim/muon.h>
#include <adret/optim/rmsprop.h>
#include <adret/optim/sgd.h>
#include <adret/optim/step_guard.h>
#include <adret/train/step.h>
#include <adret/train/weight_average.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"
#include "tests/support/state_bytes.h"

namespace adret {
namespace {

using namespace test;

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Net : Layer<Net> {
  Linear& first = add("first", Linear(3, 4, {.bias = false}));
  BatchNorm1d& norm = add("norm", BatchNorm1d(4, {.affine = false}));
  Linear& last = add("last", Linear(4, 2, {.bias = false}));
  Tensor forward(const Tensor& x) { return last(norm(first(x))); }
};

// The inputs of step i; one element may be something else.
Tensor inputs(int i, std::optional<float> odd = {}) {
  std::vector<float> values;
  for (int k = 0; k < 12; ++k) values.push_back(std::sin(float(i * 12 + k)));
  if (odd) values[5] = *odd;
  return Tensor::from(values, {4, 3});
}

// A guarded training, eager or replayed.
struct Guarded {
  using Make = std::function<std::unique_ptr<Optimizer>(Module&)>;
  Guarded(const Make& make, StepMode mode, const StepGuardOptions& options = {})
      : optimizer(make(net)),
        guard(net, *optimizer, options),
        average(net, *optimizer, {.decay = 0.9}),
        step(
            [this](const Tensor& x) {
              guard.begin();
              optimizer->zero_grad();
              const Tensor loss = mean(square(net(x) - 1));
              loss.backward();
              guard.add_loss(loss);
              const Tensor is_finite = guard.decide();
              optimizer->clip_norm(10);
              optimizer->step();
              average.update(is_finite);
              return std::vector<Tensor>{loss, is_finite};
            },
            {.mode = mode}) {
    guard.find_buffers();
  }

  // Whether the step is told to be finite.
  bool make(const Tensor& x) { return step.run({x})[1].item<bool>(); }
  std::vector<std::string> bytes() { return state_bytes(net, *optimizer, &average); }

  Net net;
  std::unique_ptr<Optimizer> optimizer;
  StepGuard guard;
  WeightAverage average;
  Step step;
};

template <class Kind, class Options>
Guarded::Make with(const Options& options) {
  return [options](Module& net) { return std::make_unique<Kind>(net, options); };
}

Guarded::Make muon() {
  return [](Module& net) {
    return std::make_unique<Muon>(
        std::vector<ParameterGroup<MuonOptions>>{{net.parameters(), MuonOptions{.lr = 0.02}}});
  };
}

std::vector<Guarded::Make> every_optimizer() {
  return {with<Sgd>(SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}),
          with<Adam>(AdamOptions{}),
          with<AdamW>(AdamWOptions{}),
          with<NAdam>(NAdamOptions{}),
          with<RAdam>(RAdamOptions{}),
          with<Rmsprop>(RmspropOptions{.momentum = 0.5, .centered = true}),
          with<Adagrad>(AdagradOptions{}),
          with<Lion>(LionOptions{}),
          with<Lamb>(LambOptions{}),
          muon()};
}

TEST(StepGuard, AStepThatIsNotFiniteChangesNothingNorDoThoseBehindIt) {
  for (const Guarded::Make& make : every_optimizer()) {
    for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
      random::manual_seed(2);
      Guarded run(make, mode);
      SCOPED_TRACE(run.optimizer->state().optimizer);
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(run.make(inputs(i)));
      if (mode == StepMode::graph) {
        EXPECT_GE(run.step.report().replays, 1);
      }
      EXPECT_FALSE(run.guard.failed());
      const auto before = run.bytes();
      EXPECT_FALSE(run.make(inputs(4, infinity)));
      EXPECT_TRUE(run.guard.failed());
      EXPECT_EQ(run.bytes(), before);
      EXPECT_FALSE(run.make(inputs(5)));
      EXPECT_EQ(run.bytes(), before);
      run.guard.reset();
      EXPECT_TRUE(run.make(inputs(5)));
      EXPECT_NE(run.bytes(), before);
    }
  }
}

// The bits are those of a training without a guard, and with one that went on, of a training
// without the step.
TEST(StepGuard, LeavesTheOtherStepsAsTheyAre) {
  const auto train = [](StepMode mode, bool odd) {
    random::manual_seed(2);
    Guarded run(with<Adam>(AdamOptions{}), mode, {.continue_after_failure = true});
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(run.make(inputs(i)));
      if (odd && i == 3) {
        for (const float value : {infinity, std::nanf("")}) {
          EXPECT_FALSE(run.make(inputs(i, value)));
          EXPECT_TRUE(run.guard.failed());
        }
      }
    }
    return run.bytes();
  };
  random::manual_seed(2);
  Net net;
  Adam optimizer(net);
  WeightAverage average(net, optimizer, {.decay = 0.9});
  for (int i = 0; i < 5; ++i) {
    optimizer.zero_grad();
    mean(square(net(inputs(i)) - 1)).backward();
    optimizer.clip_norm(10);
    optimizer.step();
    average.update();
  }
  const auto expected = state_bytes(net, optimizer, &average);
  EXPECT_EQ(train(StepMode::eager, false), expected);
  EXPECT_EQ(train(StepMode::eager, true), expected);
  // Replays round otherwise on a GPU.
  if (test_device() != TestDevice::cuda) {
    EXPECT_EQ(train(StepMode::graph, true), expected);
  }
}

struct Pair : Layer<Pair> {
  Parameter& a = parameter("a", Tensor::from<float>({1, 2}, {2}));
  Parameter& b = parameter("b", Tensor::from<float>({3}, {1}));
  Tensor forward(const Tensor& x) { return x; }
};

// pytorch/pytorch#46849.
TEST(StepGuard, LeavesOtherGradientsAloneWhenOneIsInfiniteAndTheNormIsClipped) {
  Pair model;
  Sgd optimizer(model, {.lr = 1, .momentum = 0.9});
  StepGuard guard(model, optimizer);
  const auto before = state_bytes(model, optimizer);
  guard.begin();
  model.a.value.set_grad(Tensor::from({2.f, infinity}, {2}));
  model.b.value.set_grad(Tensor::from({6.f}, {1}));
  EXPECT_FALSE(guard.decide().item<bool>());
  optimizer.clip_norm(1);
  optimizer.step();
  EXPECT_EQ(model.a.value.grad().to_vector(), (std::vector<float>{2, infinity}));
  EXPECT_EQ(model.b.value.grad().to_vector(), (std::vector<float>{6}));
  EXPECT_EQ(state_bytes(model, optimizer), before);
}

struct Scale : Layer<Scale> {
  explicit Scale(double start) : weight(parameter("weight", Tensor::full({1}, start))) {}
  Parameter& weight;
  Tensor forward(const Tensor& x) { return x * weight.value; }
};

// Whether a step with this loss is finite, and whether it moved the weight.
std::pair<bool, bool> judge(double start, const std::function<Tensor(const Tensor&)>& loss_of) {
  Scale model(start);
  Sgd optimizer(model, {.lr = 0.5});
  StepGuard guard(model, optimizer);
  guard.begin();
  const Tensor loss = loss_of(model(Tensor::ones({1})));
  loss.backward();
  guard.add_loss(loss);
  const bool is_finite = guard.decide().item<bool>();
  optimizer.step();
  return {is_finite, model.weight.value.item() != float(start)};
}

TEST(StepGuard, LooksAtTheLossAndAtTheGradients) {
  const std::pair good{true, true}, bad{false, false};
  EXPECT_EQ(judge(3, [](const Tensor& y) { return sum(square(y)); }), good);
  // 1e60 is no f32, the gradient 2e30 is.
  EXPECT_EQ(judge(1e30, [](const Tensor& y) { return sum(square(y)); }), bad);
  EXPECT_EQ(judge(-1e30, [](const Tensor& y) { return sum(y * 1e30); }), bad);  // -infinity
  EXPECT_EQ(judge(0, [](const Tensor& y) { return sum(sqrt(y)); }), bad);       // loss 0
  EXPECT_EQ(judge(3, [](const Tensor& y) { return sum(y).to(DType::f64); }), good);
  EXPECT_EQ(judge(3, [](const Tensor& y) { return sum(y * 1e5).to(DType::f16); }), bad);
  EXPECT_EQ(judge(3, [](const Tensor& y) { return sum(y).to(DType::bf16); }), good);
}

TEST(StepGuard, ParametersLearnAgainBehindAFailure) {
  Pair model;
  Sgd optimizer(model, {.lr = 1});
  StepGuard guard(model, optimizer, {.continue_after_failure = true});
  const auto step = [&](float gradient) {
    guard.begin();
    optimizer.zero_grad();
    model.a.value.set_grad(Tensor::from({gradient, 0.f}, {2}));
    guard.decide();
    optimizer.step();
  };
  step(1);
  step(infinity);
  step(2);
  EXPECT_EQ(model.a.value.to_vector(), (std::vector<float>{1 - 1 - 2, 2}));
  EXPECT_EQ(model.b.value.to_vector(), (std::vector<float>{3}));
}

TEST(StepGuard, TakesSeveralLossesAndOptimizers) {
  struct Both : Layer<Both> {
    Scale& first = add("first", Scale(1));
    Scale& second = add("second", Scale(2));
    Tensor forward(const Tensor& x) { return first(x) + second(x); }
  } model;
  Sgd one(model.first, {.lr = 1});
  Adam other(model.second);
  StepGuard guard(model, {&one, &other}, {.continue_after_failure = true});
  const auto step = [&](double factor) {
    guard.begin();
    one.zero_grad();
    other.zero_grad();
    for (const double scale : {factor, 1.0}) {
      const Tensor loss = sum(model(Tensor::ones({1})) * scale);
      loss.backward();
      guard.add_loss(loss);
    }
    guard.decide();
    one.step();
    other.step();
  };
  const auto before = model_bytes(model);
  step(HUGE_VAL);
  EXPECT_EQ(model_bytes(model), before);
  step(1);
  EXPECT_EQ(model.first.weight.value.item(), 1 - 2);
  EXPECT_NE(model.second.weight.value.item(), 2);
}

// Another guard, or an average, moves the buffers.
TEST(StepGuard, FindsBuffersThatMoved) {
  Net net;
  Sgd optimizer(net, {.lr = 0.1});
  StepGuard first(net, optimizer), second(net, optimizer);
  const WeightAverage average(net, optimizer);
  const auto spoil = [&](StepGuard& guard) {
    const auto before = model_bytes(net);
    guard.reset();
    guard.begin();
    optimizer.zero_grad();
    const Tensor loss = mean(net(inputs(1, infinity)));
    loss.backward();
    guard.add_loss(loss);
    EXPECT_NE(model_bytes(net), before);
    guard.decide();
    optimizer.step();
    EXPECT_EQ(model_bytes(net), before);
  };
  spoil(first);
  spoil(second);
  spoil(first);
}

// A view of a buffer that somebody holds shows what the buffer has.
TEST(StepGuard, LeavesBuffersWithViewsWhereTheyAre) {
  Net net;
  Sgd optimizer(net, {.lr = 0.1});
  const Tensor view = net.norm.running_mean.reshape({2, 2});
  StepGuard guard(net, optimizer);
  const WeightAverage average(net, optimizer);
  guard.find_buffers();
  const auto step = [&](const Tensor& x) {
    guard.begin();
    optimizer.zero_grad();
    const Tensor loss = mean(square(net(x)));
    loss.backward();
    guard.add_loss(loss);
    guard.decide();
    optimizer.step();
    EXPECT_EQ(view.to_vector(), net.norm.running_mean.to_vector());
    return model_bytes(net);
  };
  const auto start = model_bytes(net), before = step(inputs(1));
  EXPECT_NE(before, start);
  EXPECT_EQ(step(inputs(2, infinity)), before);
}

// What lies between buffers that are parts of a larger tensor is no buffer.
TEST(StepGuard, PutsBackNothingButTheBuffers) {
  struct Parts : Layer<Parts> {
    Tensor whole = Tensor::zeros({6});
    Parameter& weight = parameter("weight", Tensor::ones({1}));
    Tensor& first = buffer("first", whole.alias({2}, 0));
    Tensor& last = buffer("last", whole.alias({2}, 4 * sizeof(float)));
    Tensor forward(const Tensor& x) { return x; }
  } model;
  Sgd optimizer(model, {.lr = 0.1});
  StepGuard guard(model, optimizer);
  guard.begin();
  run(kernels::Fill{.y = model.whole, .value = 7});
  guard.add_loss(Tensor::full({}, infinity));
  guard.decide();
  EXPECT_EQ(model.whole.to_vector(), (std::vector<float>{0, 0, 7, 7, 0, 0}));
}

TEST(StepGuard, AStepThatIsAbandonedIsForgotten) {
  for (const bool continue_after_failure : {false, true}) {
    Net net;
    Sgd optimizer(net, {.lr = 0.1});
    StepGuard guard(net, optimizer, {.continue_after_failure = continue_after_failure});
    const auto before = model_bytes(net);
    guard.begin();
    EXPECT_TRUE(guard.is_begun());
    guard.add_loss(mean(net(inputs(1, infinity))));
    guard.is_finite();
    guard.abandon();
    EXPECT_FALSE(guard.is_begun());
    EXPECT_FALSE(guard.failed());
    EXPECT_TRUE(guard.is_finite().item<bool>());
    EXPECT_EQ(model_bytes(net), before);
    guard.begin();
    guard.add_loss(Tensor::full({}, infinity));
    guard.decide();
    optimizer.step();
    guard.begin();
    guard.abandon();
    EXPECT_TRUE(guard.failed());
    guard.begin();
    EXPECT_EQ(guard.is_finite().item<bool>(),
              continue_after_failure);  // the failure before the step stays
    guard.abandon();
    net(inputs(2));  // nothing is begun, so nothing is put back
    const auto after = model_bytes(net);
    guard.abandon();
    EXPECT_EQ(model_bytes(net), after);
  }
}

// Throws in place of a call.
struct Interruption : Decorator {
  explicit Interruption(int after) : left(after) {}
  void run(const Kernel& call) override {
    if (left-- == 0) throw Error("interrupted");
    forward(call);
  }
  int left;
};

TEST(StepGuard, PutsBuffersBackWhereverAReplayEnds) {
  Guarded run(with<Sgd>(SgdOptions{.lr = 0.1}), StepMode::graph);
  for (int i = 0; i < 4; ++i) run.make(inputs(i));
  int interrupted = 0;
  for (bool ended = false; !ended;) {
    run.make(inputs(interrupted));  // so that what was saved is older than the buffers
    const auto before = buffer_bytes(run.net);
    try {
      const Interruption interruption(interrupted);
      run.make(inputs(interrupted + 1));
      ended = true;
      continue;
    } catch (const Error& error) {
      ASSERT_EQ(error.what(), std::string("interrupted"));
    }
    run.guard.abandon();
    ASSERT_EQ(buffer_bytes(run.net), before) << "call " << interrupted;
    ++interrupted;
  }
  EXPECT_GE(interrupted, 10);
  EXPECT_GE(run.step.report().replays, interrupted);
}

TEST(StepGuard, WantsADecisionForEachStepThatBegan) {
  Net net;
  Sgd optimizer(net, {.lr = 0.1});
  const char* const undecided = "[step] a StepGuard began this step and did not decide";
  {
    StepGuard guard(net, optimizer);
    expect_error<Error>([&] { return guard.decide(); },
                        "[StepGuard] decide() was called for no step; call begin()");
    guard.begin();
    optimizer.zero_grad();
    mean(net(inputs(1))).backward();
    expect_error<Error>([&] { return optimizer.step(), 0; }, undecided);
    guard.decide();
    optimizer.step();
    expect_error<Error>([&] { return guard.decide(); }, "[StepGuard] decide() was called for no");
    guard.begin();
    guard.abandon();
    optimizer.step();
    guard.begin();
    expect_error<Error>([&] { return optimizer.step(), 0; }, undecided);
  }
  optimizer.step();  // the guard is gone
}

TEST(StepGuard, SaysWhatIsWrong) {
  Net net;
  Sgd optimizer(net, {.lr = 0.1});
  expect_error<Error>([&] { StepGuard(net, std::vector<Optimizer*>{}); },
                      "[StepGuard] the list of optimizers is empty");
  expect_error<Error>(
      [&] {
        StepGuard(net, std::vector<Optimizer*>{&optimizer, nullptr});
      },
      "[StepGuard] optimizer 1 is null");
  expect_error<Error>(
      [&] {
        StepGuard(net, std::vector<Optimizer*>{&optimizer, &optimizer});
      },
      "[StepGuard] optimizers 0 and 1 are the same; name each once");
  StepGuard guard(net, optimizer);
  expect_error<ShapeError>([&] { return guard.add_loss(Tensor::ones({2})), 0; },
                           "[StepGuard] the loss is (2,) f32 cpu; wanted one floating element");
  expect_error<ShapeError>(
      [&] { return guard.add_loss(Tensor::ones({}, {.dtype = DType::i64})), 0; },
      "[StepGuard] the loss is () i64 cpu; wanted one floating element");
  guard.begin();
  expect_error<Error>(
      [&] { return guard.begin(), 0; },
      "[StepGuard] begin() was called a second time before decide(); call abandon() "
      "for a step that is given up");
  guard.abandon();
  LossScaler scaler(optimizer);
  scaler.scale(mean(net(inputs(1)))).backward();
  scaler.unscale();
  expect_error<Error>([&] { return guard.decide(); },
                      "[StepGuard] decide() was called behind LossScaler::unscale or a second time "
                      "before step()");
}

}  // namespace
}  // namespace adret
