// Saving and loading an optimizer's state: a resumed run goes on bit for bit.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <adret/optim/adagrad.h>
#include <adret/optim/adam.h>
#include <adret/optim/lamb.h>
#include <adret/optim/lion.h>
#include <adret/optim/lr_schedule.h>
#include <adret/optim/rmsprop.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

Sequential network() { return Sequential(Linear(3, 8), Tanh(), Linear(8, 1)); }

void train(Sequential& net, Optimizer& optimizer, int64_t first, int64_t last) {
  const LrSchedule schedule =
      cosine_lr({.lr = 0.05, .steps = 10, .warmup_steps = 2, .final_lr = 0.001});
  for (int64_t step = first; step < last; ++step) {
    optimizer.set_lr(schedule(step));
    const float s = float(step);
    const Tensor x = Tensor::from({s, 1 - s, 0.5f, -1.f, s / 2, 2.f}, {2, 3});
    mean(square(net(x) - 1)).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
}

std::vector<std::vector<float>> values(const Module& net) {
  std::vector<std::vector<float>> list;
  for (const auto& parameter : net.parameters()) list.push_back(parameter->value.to_vector());
  return list;
}

// `make(net)` starts the run, `make_other(net)` is what resumes it, with other hyper-parameters.
template <class Make, class MakeOther>
void expect_resumes(Make make, MakeOther make_other) {
  random::manual_seed(3);
  Sequential straight = network();
  Sequential first_half = straight.clone();
  const auto whole = make(straight);
  train(straight, *whole, 0, 10);

  const auto first = make(first_half);
  train(first_half, *first, 0, 5);
  const OptimizerState state = first->state();
  Sequential second_half = first_half.clone();
  train(first_half, *first, 5, 7);  // goes on without touching the saved state

  const auto second = make_other(second_half);
  second->load_state(state);
  train(second_half, *second, 5, 10);
  EXPECT_EQ(values(second_half), values(straight));
}

TEST(OptimizerState, AdamResumesBitForBitWhateverItsConstructorSaid) {
  expect_resumes(
      [](Module& net) {
        return std::make_unique<Adam>(
            net, AdamOptions{.beta1 = 0.7, .beta2 = 0.95, .epsilon = 1e-4, .weight_decay = 0.01});
      },
      [](Module& net) { return std::make_unique<Adam>(net); });
}

TEST(OptimizerState, SgdResumesBitForBitWhateverItsConstructorSaid) {
  const auto with = [](const SgdOptions& options) {
    return [options](Module& net) { return std::make_unique<Sgd>(net, options); };
  };
  expect_resumes(with({.lr = 0, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
                 with({.lr = 0}));
  expect_resumes(with({.lr = 0}), with({.lr = 0, .momentum = 0.9}));
}

template <class Kind, class Options>
void expect_resumes_as(const Options& options, const Options& others) {
  const auto with = [](const Options& these) {
    return [these](Module& net) { return std::make_unique<Kind>(net, these); };
  };
  expect_resumes(with(options), with(others));
}

TEST(OptimizerState, TheOthersResumeBitForBit) {
  expect_resumes_as<NAdam>(NAdamOptions{.beta1 = 0.7, .momentum_decay = 0.1}, NAdamOptions{});
  expect_resumes_as<RAdam>(RAdamOptions{.beta2 = 0.9, .decoupled_weight_decay = true},
                           RAdamOptions{});
  const RmspropOptions both{.alpha = 0.9, .momentum = 0.5, .centered = true};
  expect_resumes_as<Rmsprop>(both, RmspropOptions{});
  expect_resumes_as<Rmsprop>(RmspropOptions{}, both);
  expect_resumes_as<Adagrad>(AdagradOptions{.lr_decay = 0.1, .initial_accumulator_value = 0.5},
                             AdagradOptions{});
  expect_resumes_as<Lion>(LionOptions{.beta1 = 0.5, .weight_decay = 0.1}, LionOptions{});
  expect_resumes_as<Lamb>(LambOptions{.beta1 = 0.5, .weight_decay = 0.1}, LambOptions{});
}

TEST(OptimizerState, ListsItsTensorsByName) {
  Linear fc(3, 2);
  const Adam adam(fc, {.lr = 0.5});
  std::vector<std::string> names;
  for (const NamedTensor& entry : adam.state().tensors) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"groups.lr", "groups.beta1", "groups.beta2",
                                             "groups.epsilon", "groups.weight_decay",
                                             "groups.decoupled", "first_moment.0", "first_moment.1",
                                             "second_moment.0", "second_moment.1", "steps"}));
  EXPECT_EQ(adam.state().tensors[0].tensor.to_vector<double>(), (std::vector<double>{0.5}));
  EXPECT_EQ(adam.state().tensors[6].tensor.shape(), (Shape{2, 3}));
}

TEST(OptimizerState, RefusesWhatDoesNotFitAndChangesNothing) {
  Linear small(3, 2), large(4, 2);
  const Adam source(small, {.lr = 0.5});
  Adam target(large, {.lr = 0.25});
  expect_error<CheckpointError>(
      [&] { return target.load_state(source.state()), 0; },
      "[load_state] the optimizer wants \"first_moment.0\" (2, 4) f32, the state has (2, 3) f32");
  EXPECT_EQ(target.lr(), 0.25);

  OptimizerState missing = target.state();
  missing.tensors.pop_back();
  expect_error<CheckpointError>([&] { return target.load_state(missing), 0; },
                                "\"steps\" (2,) i64, the state has no such tensor");
  OptimizerState extra = target.state();
  extra.tensors.push_back({"momentum.0", Tensor::zeros({1})});
  expect_error<CheckpointError>([&] { return target.load_state(extra), 0; },
                                "the state has 12 tensors, the optimizer wants 11");
  OptimizerState negative = target.state();
  negative.tensors[0].tensor = Tensor::from({-1.0}, {1});
  expect_error<Error>([&] { return target.load_state(negative), 0; }, "[adam] lr is -1");
  Linear other(3, 2);
  Sgd sgd(other, {.lr = 1});
  expect_error<CheckpointError>([&] { return sgd.load_state(source.state()), 0; },
                                "[load_state] the state is that of \"adam\", not of \"sgd\"");
}

}  // namespace
}  // namespace adret
