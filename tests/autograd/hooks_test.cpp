// Hooks on the gradients of tensors.
#include <adret/autograd/checkpoint.h>
#include <adret/autograd/engine.h>
#include <adret/autograd/hooks.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/linear.h>
#include <adret/optim/sgd.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using testing::ElementsAre;

std::vector<double> values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

TEST(GradientHook, SeesTheWholeGradientOnce) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 3.0;
  std::vector<std::vector<double>> seen;
  add_gradient_hook(h, [&](const Tensor& gradient) {
    seen.push_back(values(gradient));
    return Tensor();
  });
  sum(h * h + h).backward();  // 2 h + 1
  EXPECT_THAT(seen, ElementsAre(ElementsAre(7, 13)));
  EXPECT_THAT(values(x.grad()), ElementsAre(21, 39));
}

TEST(GradientHook, ReplacesTheGradientForAllBehindIt) {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 3.0;
  add_gradient_hook(h, [](const Tensor& gradient) { return gradient * 10.0; });
  std::vector<double> second;
  add_gradient_hook(h, [&](const Tensor& gradient) {
    second = values(gradient);
    return gradient + 1.0;
  });
  EXPECT_THAT(values(grad({sum(h)}, {x}, {.retain_graph = true})[0]), ElementsAre(33, 33));
  EXPECT_THAT(second, ElementsAre(10, 10));
  EXPECT_THAT(values(grad({sum(h)}, {h}, {.retain_graph = true})[0]), ElementsAre(11, 11));
}

TEST(GradientHook, OfALeafRunsBeforeItIsAdded) {
  const Tensor x = leaf({1, 2});
  int calls = 0;
  const int id = add_gradient_hook(x, [&](const Tensor& gradient) {
    ++calls;
    return gradient * -1.0;
  });
  sum(x * 2.0 + x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(values(x.grad()), ElementsAre(-3, -3));
  sum(x).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(-4, -4));
  EXPECT_THAT(values(grad({sum(x * 5.0)}, {x})[0]), ElementsAre(-5, -5));
  remove_gradient_hook(x, id);
  remove_gradient_hook(x, 7);
  sum(x).backward();
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(values(x.grad()), ElementsAre(-3, -3));
}

TEST(GradientHook, OfAParameterReachesItsPlaceInTheArena) {
  Linear fc(2, 1, {.bias = false});
  Sgd optimizer(fc, {.lr = 1});
  const std::vector<double> before = values(fc.weight.value);
  const Tensor x = Tensor::from<float>({1, 2}, {1, 2});
  for (int i = 0; i < 2; ++i) {  // from the second step on gradients are written in their place
    const int id =
        add_gradient_hook(fc.weight.value, [](const Tensor& gradient) { return gradient * 0.5; });
    optimizer.zero_grad();
    sum(fc(x)).backward();
    optimizer.step();
    remove_gradient_hook(fc.weight.value, id);
  }
  EXPECT_NEAR(values(fc.weight.value)[0], before[0] - 1, 1e-6);
  EXPECT_NEAR(values(fc.weight.value)[1], before[1] - 2, 1e-6);
}

TEST(GradientHook, MayRemoveItself) {
  const Tensor x = leaf({1});
  int calls = 0, id = -1;
  id = add_gradient_hook(x, [&](const Tensor&) {
    ++calls;
    remove_gradient_hook(x, id);
    return Tensor();
  });
  sum(x).backward();
  sum(x).backward();
  EXPECT_EQ(calls, 1);
}

TEST(GradientHook, OfOneOfSeveralOutputsIsNotThatOfAnother) {
  const Tensor x = leaf({1, 2, 3, 4});
  const std::vector<Tensor> parts = split(x, 2, 0);
  add_gradient_hook(parts[1], [](const Tensor& gradient) { return gradient * 2.0; });
  sum(parts[0] + parts[1]).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(1, 1, 2, 2));
}

// d/dh of (2 h)^2 is 8 h; the hook makes 8 h x of it. Its derivative is 8 h by x, and 8 x by h, of
// which the hook makes 8 x^2 on its way to x.
TEST(GradientHook, IsRecordedWhenTheGraphIs) {
  const Tensor x = leaf({3});
  const Tensor h = x * 1.0;
  add_gradient_hook(h, [&](const Tensor& gradient) { return gradient * x; });
  const Tensor dx = grad({sum(square(h * 2.0))}, {x}, {.create_graph = true})[0];
  EXPECT_THAT(values(dx), ElementsAre(72));
  EXPECT_THAT(values(grad({sum(dx)}, {x})[0]), ElementsAre(24 + 72));
}

TEST(GradientHook, WorksBehindACheckpoint) {
  const Tensor x = leaf({2});
  const Tensor y = checkpoint([](const Tensor& in) { return square(in); }, x);
  add_gradient_hook(y, [](const Tensor& gradient) { return gradient * 5.0; });
  sum(y).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(20));
}

TEST(GradientHook, RefusesWhatDoesNotFit) {
  expect_error<Error>(
      [] { return add_gradient_hook(Tensor::ones({2}), [](const Tensor& g) { return g; }); },
      "[add_gradient_hook] the tensor (2,) requires no gradient");
  const Tensor x = leaf({1, 2});
  expect_error<Error>([&] { return add_gradient_hook(x, {}); },
                      "[add_gradient_hook] the hook is empty");
  const auto refuse = [&](const Tensor& replacement, const std::string& text) {
    const Tensor h = x * 2.0;
    add_gradient_hook(h, [&](const Tensor&) { return replacement; });
    expect_error<ShapeError>([&] { return sum(h).backward(), 0; }, text);
  };
  refuse(Tensor::ones({3}, {.dtype = DType::f64}),
         "[hook] a gradient hook of multiply returned (3,) f64 cpu in place of a gradient (2,) f64 "
         "cpu");
  refuse(Tensor::ones({2}), "returned (2,) f32 cpu in place of a gradient (2,) f64 cpu");
}

}  // namespace
}  // namespace adret
