// Hooks of modules: before forward, and in backward.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/hooks.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/layers/activation.h>
#include <adret/layers/linear.h>
#include <adret/layers/sequential.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::ElementsAre;
using Tensors = std::vector<Tensor>;

std::vector<double> values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

// y = scale * a * b.
struct Product : Layer<Product> {
  Tensor forward(const Tensor& a, const Tensor& b, double scale) { return a * b * scale; }
  Product rebuild() const { return Product(); }
};

TEST(ForwardPreHook, SeesAndReplacesTheTensors) {
  Product product;
  const int id = product.add_forward_pre_hook([&](Module& module, const Tensors& inputs) {
    EXPECT_EQ(&module, &product);
    EXPECT_EQ(inputs.size(), 2u);
    return Tensors{inputs[1], inputs[1] + 1.0};
  });
  product.add_forward_pre_hook([](Module&, const Tensors& inputs) {
    EXPECT_THAT(values(inputs[1]), ElementsAre(6));
    return Tensors();
  });
  EXPECT_THAT(values(product(leaf({3}), leaf({5}), 2.0)), ElementsAre(60));
  product.remove_forward_pre_hook(id);
  product.remove_forward_pre_hook(id);
  EXPECT_THAT(values(product(leaf({3}), leaf({6}), 2.0)), ElementsAre(36));
}

TEST(ForwardPreHook, OfAnyResultOfForward) {
  struct Two : Layer<Two> {
    std::pair<Tensor, Tensor> forward(const Tensor& x) { return {x, x * 2.0}; }
  } two;
  two.add_forward_pre_hook(
      [](Module&, const Tensors& inputs) { return Tensors{inputs[0] * 10.0}; });
  EXPECT_THAT(values(two(leaf({1})).second), ElementsAre(20));
}

// y = x, and the state becomes 2 x.
struct Stateful : Layer<Stateful> {
  Tensor forward(const Tensor& x, Tensor& state) {
    state = x * 2.0;
    return x * 1.0;
  }
};

TEST(ForwardPreHook, LeavesWhatForwardWritesToItsArguments) {
  Stateful stateful;
  stateful.add_forward_pre_hook([](Module&, const Tensors&) { return Tensors(); });
  Tensor state;
  stateful(leaf({3}), state);
  EXPECT_THAT(values(state), ElementsAre(6));
}

TEST(BackwardHook, SaysThatItsModuleIsGone) {
  Tensor loss;
  {
    Product product;
    product.add_backward_hook([](Module&, const Tensors&, const Tensor&) { return Tensors(); });
    loss = sum(product(leaf({3}), leaf({5}), 2.0));
  }
  expect_error<Error>([&] { loss.backward(); },
                      "[Product] it has a backward hook, and is gone before the backward; keep the "
                      "module until then");
}

TEST(BackwardHook, SeesGradientsThroughTheModuleAlone) {
  Product product;
  std::vector<std::vector<double>> seen;
  product.add_backward_hook([&](Module& module, const Tensors& inputs, const Tensor& output) {
    EXPECT_EQ(&module, &product);
    for (const Tensor& gradient : inputs) seen.push_back(values(gradient));
    seen.push_back(values(output));
    return Tensors();
  });
  const Tensor a = leaf({3}), b = leaf({5});
  const Tensor y = product(a, b, 2.0);
  sum(y * y + a * 100.0).backward();  // y = 30, dy = 60
  EXPECT_THAT(seen, ElementsAre(ElementsAre(600), ElementsAre(360), ElementsAre(60)));
  EXPECT_THAT(values(a.grad()), ElementsAre(700));
}

TEST(BackwardHook, ReplacesGradientsOfInputs) {
  Product product;
  const int id = product.add_backward_hook([](Module&, const Tensors& inputs, const Tensor&) {
    return Tensors{inputs[0] * 0.5, {}};
  });
  product.add_backward_hook([](Module&, const Tensors& inputs, const Tensor&) {
    return Tensors{inputs[0] + 1.0, inputs[1]};
  });
  const Tensor a = leaf({3}), b = leaf({5});
  const Tensor y = product(a, b, 2.0);
  EXPECT_THAT(values(grad({sum(y)}, {a}, {.retain_graph = true})[0]), ElementsAre(6));
  EXPECT_THAT(values(grad({sum(y)}, {b}, {.retain_graph = true})[0]), ElementsAre(6));
  product.remove_backward_hook(id);  // also for calls that were made before
  EXPECT_THAT(values(grad({sum(y)}, {a})[0]), ElementsAre(11));
}

// The first layer's input is data: the hook runs when the output's gradient is there.
TEST(BackwardHook, OfAModuleWhoseInputsNeedNoGradient) {
  Sequential net(Linear(2, 3), Tanh(), Linear(3, 1));
  std::vector<std::string> order;
  for (const auto& child : net.children()) {
    child->add_backward_hook([&](Module& module, const Tensors& inputs, const Tensor& output) {
      order.push_back(module.name());
      EXPECT_EQ(inputs.size(), 1u);
      EXPECT_EQ(inputs[0].defined(), module.name() != "0");
      EXPECT_TRUE(output.defined());
      return Tensors();
    });
  }
  sum(net(Tensor::ones({4, 2}))).backward();
  EXPECT_THAT(order, ElementsAre("2", "1", "0"));
  EXPECT_TRUE(net.parameters()[0]->value.grad().defined());
  const NoGrad no_grad;
  net(Tensor::ones({4, 2}));
  EXPECT_EQ(order.size(), 3u);
}

// A hook that halves: gradients, and gradients of gradients, of the layers below are halved.
TEST(BackwardHook, IsRecordedWhenTheGraphIs) {
  Tanh layer;
  layer.add_backward_hook(
      [](Module&, const Tensors& inputs, const Tensor&) { return Tensors{inputs[0] * 0.5}; });
  const Tensor x = leaf({0.3});
  const auto second = [&](bool hooked) {
    const Tensor y = hooked ? layer(x) : tanh(x);
    const Tensor dx = grad({sum(y)}, {x}, {.create_graph = true})[0];
    return values(grad({sum(dx)}, {x})[0])[0];
  };
  // Through the gradient's graph and, as that comes from the hooked forward, through the hook.
  EXPECT_NEAR(second(true), 0.25 * second(false), 1e-12);
}

TEST(BackwardHook, OfAForwardThatReturnsItsInput) {
  struct Same : Layer<Same> {
    Tensor forward(const Tensor& x) { return x; }
  } same;
  int calls = 0;
  same.add_backward_hook([&](Module&, const Tensors& inputs, const Tensor&) {
    ++calls;
    return Tensors{inputs[0] * 3.0};
  });
  const Tensor x = leaf({1});
  sum(same(x) + x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(values(x.grad()), ElementsAre(4));
}

TEST(Hooks, AreNotCloned) {
  Product product;
  product.add_backward_hook(
      [](Module&, const Tensors&, const Tensor&) -> Tensors { throw Error("the original's"); });
  Product copy = product.clone();
  const Tensor a = leaf({3});
  sum(copy(a, a, 1.0)).backward();
  EXPECT_THAT(values(a.grad()), ElementsAre(6));
  expect_error<Error>([&] { return sum(product(a, a, 1.0)).backward(), 0; }, "the original's");
}

TEST(Hooks, RefuseWhatDoesNotFit) {
  Product product;
  const Tensor a = leaf({3}), b = leaf({5});
  expect_error<Error>([&] { return product.add_forward_pre_hook({}); }, "the hook is empty");
  expect_error<Error>([&] { return product.add_forward_hook({}); }, "the hook is empty");
  expect_error<Error>([&] { return product.add_backward_hook({}); }, "the hook is empty");
  int id = product.add_forward_pre_hook([](Module&, const Tensors& in) { return Tensors{in[0]}; });
  expect_error<Error>([&] { return product(a, b, 1.0); },
                      "[Product] a forward pre-hook returned 1 tensors in place of 2");
  product.remove_forward_pre_hook(id);
  const auto refuse = [&]<class E>(E, const BackwardHook& hook, const std::string& text) {
    id = product.add_backward_hook(hook);
    expect_error<E>([&] { return sum(product(a, b, 1.0)).backward(), 0; }, text);
    product.remove_backward_hook(id);
  };
  refuse(
      Error(""), [](Module&, const Tensors& in, const Tensor&) { return Tensors{in[0]}; },
      "[Product] a backward hook returned 1 tensors in place of 2");
  refuse(
      ShapeError(""),
      [](Module&, const Tensors& in, const Tensor&) {
        return Tensors{in[0], Tensor::ones({2}, {.dtype = DType::f64})};
      },
      "[hook] a backward hook of Product returned (2,) f64 cpu in place of a gradient (1,) f64 "
      "cpu");
  struct Two : Layer<Two> {
    std::pair<Tensor, int> forward(const Tensor& x) { return {x, 1}; }
  } two;
  two.add_backward_hook([](Module&, const Tensors&, const Tensor&) { return Tensors(); });
  expect_error<Error>([&] { return two(a); },
                      "[Two] a backward hook needs a forward that returns one tensor");
}

// Hooks on a parameter stay, with their numbers, when its value is replaced.
TEST(GradientHook, OfAParameterSurvivesConversions) {
  SecondDevice second;
  Linear layer(1, 1, {.bias = false});
  int calls = 0;
  const int first = add_gradient_hook(layer.weight.value, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  add_gradient_hook(layer.weight.value, [](const Tensor& gradient) { return gradient * 10.0; });
  const auto expect_hooks = [&](int count, const Tensor& x) {
    calls = 0;
    layer.zero_grad();
    sum(layer(x)).backward();
    EXPECT_EQ(calls, count) << to_string(x.dtype());
    EXPECT_EQ(layer.weight.value.grad().to(Device::cpu()).to(DType::f32).item(), 10);
  };
  expect_hooks(1, Tensor::ones({1, 1}));
  for (const DType dtype : {DType::f64, DType::bf16, DType::f32}) {
    layer.to(dtype);
    expect_hooks(1, Tensor::ones({1, 1}, {.dtype = dtype}));
  }
  layer.to(Device::cuda());
  expect_hooks(1, Tensor::ones({1, 1}, {.device = Device::cuda()}));
  layer.to(Device::cpu());
  layer.weight.replace(Tensor::full({1, 1}, 3));
  expect_hooks(1, Tensor::ones({1, 1}));
  remove_gradient_hook(layer.weight.value, first);
  expect_hooks(0, Tensor::ones({1, 1}));
  Linear clone = layer.clone();
  sum(clone(Tensor::ones({1, 1}))).backward();
  EXPECT_EQ(clone.weight.value.grad().item(), 1);  // a clone has no hooks
}

}  // namespace
}  // namespace adret
