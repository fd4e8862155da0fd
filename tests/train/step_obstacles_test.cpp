// What keeps a step from being replayed is named, with its place.
#include <adret/autograd/hooks.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/layers/linear.h>
#include <adret/optim/lbfgs.h>
#include <adret/optim/sgd.h>
#include <adret/train/step.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

// What three calls in the mode graph say.
template <class F>
std::string refusal(
    F function, const std::function<void()>& before_each = [] {}) {
  Step step(std::move(function), {.mode = StepMode::graph});
  return thrown<Error>([&] {
    for (int i = 0; i < 4; ++i) {
      before_each();
      step(Tensor::full({2}, double(i + 1)));
    }
  });
}

TEST(StepObstacles, NamesWhatReadsAValue) {
  const std::string text = refusal([](const Tensor& x) {
    const NameScope scope("decision");
    return sum(x).item() > 2 ? x * 2 : x;
  });
  EXPECT_THAT(text, HasSubstr("[step] the step cannot be replayed: it reads 4 bytes on the host in "
                              "decision; return the tensor and read it after the step"));
}

TEST(StepObstacles, NamesWhatBringsValuesFromTheHost) {
  EXPECT_THAT(refusal([](const Tensor& x) {
                return x + Tensor::from({1.0f, 2.0f}, {2});
              }),
              HasSubstr("it copies 8 bytes from the host in the step; make constants before"));
}

TEST(StepObstacles, NamesTheKernelThatDiffers) {
  double factor = 1;
  const std::string text = refusal([&](const Tensor& x) { return x * (factor += 1); });
  EXPECT_THAT(text, HasSubstr("call 0 was unary"));
  EXPECT_THAT(text, HasSubstr(", then unary"));
}

TEST(StepObstacles, NamesTensorsThatStayBehind) {
  Tensor last;
  EXPECT_THAT(refusal([&](const Tensor& x) { return last = x * 2, sum(last); }),
              HasSubstr("the tensor (2,) f32 cpu, made in multiply, is kept behind the step"));
}

TEST(StepObstacles, NamesRatesThatAreSetWithin) {
  Linear layer(2, 1);
  Sgd optimizer(layer, {.lr = 0.1});
  EXPECT_THAT(refusal([&](const Tensor& x) {
                optimizer.zero_grad();
                const Tensor loss = sum(layer(x.reshape({1, 2})));
                loss.backward();
                optimizer.set_lr(0.1);
                optimizer.step();
                return loss;
              }),
              HasSubstr("it sets a learning rate; call set_lr before the step"));
}

// It decides by the losses, so it is refused before it moves anything.
TEST(StepObstacles, RefusesLbfgs) {
  Linear layer(2, 1);
  Lbfgs optimizer(layer, {.max_iter = 2});
  const auto function = [&](const Tensor& x) {
    return Tensor::full({}, optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor loss = sum(square(layer(x.reshape({1, 2}))));
      loss.backward();
      return loss;
    }));
  };
  const std::vector<float> before = layer.weight.value.to_vector();
  for (const StepMode mode : {StepMode::graph, StepMode::automatic}) {
    Step step(function, {.mode = mode});
    EXPECT_THAT(thrown<Error>([&] { step(Tensor::ones({2})); }),
                HasSubstr("[lbfgs] a step of L-BFGS reads losses on the host, so it cannot be part "
                          "of a recorded Step; call it outside, or use StepMode::eager"));
  }
  EXPECT_EQ(layer.weight.value.to_vector(), before);
  Step step(function, {.mode = StepMode::eager});
  step(Tensor::ones({2}));
  EXPECT_NE(layer.weight.value.to_vector(), before);
}

TEST(StepObstacles, NamesHooks) {
  Linear layer(2, 1);
  layer.add_forward_hook([](Module&, const Tensor&) {});
  EXPECT_THAT(refusal([&](const Tensor& x) {
                return layer(x.reshape({1, 2}));
              }),
              HasSubstr("a forward hook of Linear is to run in every step"));
  const auto call = [](Linear& layer) {
    return refusal([&](const Tensor& x) {
      const Tensor loss = sum(layer(x.reshape({1, 2})));
      layer.zero_grad();
      loss.backward();
      return loss;
    });
  };
  Linear hooked(2, 1), watched(2, 1), before(2, 1);
  hooked.add_backward_hook(
      [](Module&, const auto&, const Tensor&) { return std::vector<Tensor>(); });
  EXPECT_THAT(call(hooked), HasSubstr("a backward hook of Linear is to run in every step"));
  before.add_forward_pre_hook([](Module&, const auto&) { return std::vector<Tensor>(); });
  EXPECT_THAT(call(before), HasSubstr("a forward pre-hook of Linear is to run in every step"));
  const int id = add_gradient_hook(watched.weight.value, [](const Tensor&) { return Tensor(); });
  EXPECT_THAT(call(watched), HasSubstr("a gradient hook of leaf is to run in every step"));
  remove_gradient_hook(watched.weight.value, id);
  Step step([&](const Tensor& x) { return sum(watched(x)); }, {.mode = StepMode::graph});
  for (int i = 0; i < 4; ++i) step(Tensor::ones({1, 2}));
  EXPECT_EQ(step.report().replays, 2);
}

TEST(StepObstacles, NamesMemoryThatNoKernelWrote) {
  EXPECT_THAT(refusal([](const Tensor& x) {
                const Tensor y = Tensor::empty({2});
                static_cast<float*>(y.data())[0] = static_cast<float*>(y.data())[1] = 3;
                return x + y;
              }),
              HasSubstr("it reads b (2,) f32 cpu in add, which no kernel of the step wrote"));
}

TEST(StepObstacles, SaysThatOtherMemoryIsUsed) {
  Tensor weight;
  EXPECT_THAT(
      refusal([&](const Tensor& x) { return x * weight; }, [&] { weight = Tensor::ones({2}); }),
      HasSubstr("worked on other memory than before; pass what changes to the step"));
}

}  // namespace
}  // namespace adret
