// Registration by declaration: names, order, moves, modes, ties, clones, hooks and conversions.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/layers/activation.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using Names = std::vector<std::string>;

Names parameter_names(const Module& module) {
  Names names;
  for (const auto& entry : module.named_parameters()) names.push_back(entry.name);
  return names;
}

struct Block : Layer<Block> {
  Linear& fc = add("fc", Linear(2, 2, {.bias = false}));
  Parameter& scale = parameter("scale", Tensor::ones({2}));
  Tensor& offset = buffer("offset", Tensor::full({2}, 0.5));
  Tensor forward(const Tensor& x) { return fc(x) * scale + offset; }
  Block rebuild() const { return Block(); }
};

struct Net : Layer<Net> {
  Parameter& first = parameter("first", Tensor::zeros({3}));
  Block& a = add("a", Block());
  Block& b = add("b", Block());
  Tensor forward(const Tensor& x) { return b(a(x)); }
  Net rebuild() const { return Net(); }
};

// The order of torch.nn.Module.named_parameters(): a module's own parameters, then its children's.
TEST(Module, NamesParametersLikePyTorch) {
  const Net net;
  EXPECT_EQ(parameter_names(net),
            (Names{"first", "a.scale", "a.fc.weight", "b.scale", "b.fc.weight"}));
  Names buffers;
  for (const auto& entry : net.named_buffers()) buffers.push_back(entry.name);
  EXPECT_EQ(buffers, (Names{"a.offset", "b.offset"}));
}

TEST(Module, ListsModulesParentsFirst) {
  Net net;
  Names names;
  for (const auto& [name, module] : net.named_modules()) {
    names.push_back(name + ":" + module->type_name());
  }
  EXPECT_EQ(names, (Names{":Net", "a:Block", "a.fc:Linear", "b:Block", "b.fc:Linear"}));
  EXPECT_EQ(net.name(), "Net");
  EXPECT_EQ(net.b.fc.name(), "fc");
}

TEST(Module, LeavesOutAbsentParameters) {
  EXPECT_EQ(parameter_names(Linear(2, 3, {.bias = false})), (Names{"weight"}));
}

TEST(Module, ReferencesSurviveMoves) {
  Net original;
  const Tensor x = Tensor::from({1.f, 2.f}, {1, 2});
  const auto before = original(x).to_vector();
  Linear* const fc = &original.a.fc;
  auto moved = std::make_unique<Net>(std::move(original));
  std::vector<Net> nets;
  nets.push_back(std::move(*moved));
  moved.reset();
  nets.push_back(Net());  // the vector grows and moves its elements
  EXPECT_EQ(&nets[0].a.fc, fc);
  EXPECT_EQ(nets[0](x).to_vector(), before);
  sum(nets[0](x)).backward();
  for (const auto& entry : nets[0].named_parameters()) {
    EXPECT_EQ(entry.parameter->value.grad().defined(), entry.name != "first") << entry.name;
  }
}

TEST(Module, CannotBeCopied) {
  static_assert(!std::is_copy_constructible_v<Net>);
  static_assert(std::is_move_constructible_v<Net>);
}

struct Twice : Layer<Twice> {
  Linear& one = add("fc", Linear(1, 1));
  Linear& two = add("fc", Linear(1, 1));
};
struct ParameterAndBuffer : Layer<ParameterAndBuffer> {
  Parameter& one = parameter("x", Tensor::ones({1}));
  Tensor& two = buffer("x", Tensor::ones({1}));
};
struct Dotted : Layer<Dotted> {
  Linear& one = add("a.b", Linear(1, 1));
};
struct Labels : Layer<Labels> {
  Parameter& one = parameter("labels", Tensor::zeros({4}, {.dtype = DType::i64}));
};

TEST(Module, RefusesNamesThatAreTakenOrInvalid) {
  expect_error<Error>([] { return Twice(); }, "[Twice] the name \"fc\" is registered twice");
  expect_error<Error>([] { return ParameterAndBuffer(); },
                      "[ParameterAndBuffer] the name \"x\" is registered twice");
  expect_error<Error>([] { return Dotted(); },
                      "[Dotted] the name \"a.b\" is empty or holds '.' or '/'");
}

TEST(Module, RefusesParametersWithoutGradients) {
  expect_error<Error>([] { return Labels(); },
                      "[Labels] the parameter \"labels\" (4,) is i64 and has no gradient; register "
                      "it with buffer()");
}

TEST(Module, OneSwitchSetsTheModeOfTheTree) {
  Net net;
  EXPECT_TRUE(net.b.fc.training());
  net.eval();
  EXPECT_FALSE(net.training());
  EXPECT_FALSE(net.b.fc.training());
  net.a.train();
  EXPECT_TRUE(net.a.fc.training());
  EXPECT_FALSE(net.b.fc.training());
}

struct Tied : Layer<Tied> {
  Linear& in = add("in", Linear(2, 2, {.bias = false}));
  Parameter& out = parameter("out", in.weight);
  Tensor forward(const Tensor& x) { return linear(in(x), out); }
  Tied rebuild() const { return Tied(); }
};

TEST(Module, ATiedParameterIsOneAndGetsBothGradients) {
  Tied model;
  EXPECT_EQ(model.parameters().size(), 1u);
  {
    const NoGrad no_grad;
    copy_(model.out, Tensor::from({1.f, 2.f, 3.f, 4.f}, {2, 2}));
  }
  // y = W W x with x = (1, 0): d(sum y)/dW = W^T s x^T + s (W x)^T with s = (1, 1).
  sum(model(Tensor::from({1.f, 0.f}, {1, 2}))).backward();
  EXPECT_EQ(model.in.weight.value.grad().to_vector(), (std::vector<float>{5, 3, 7, 3}));
  const Tied copy = model.clone();
  EXPECT_EQ(copy.parameters().size(), 1u);
  EXPECT_EQ(copy.in.weight.value.to_vector(), model.out.value.to_vector());
}

TEST(Module, ATieOutlivesClonesAndConversions) {
  const auto expect_tied = [](Tied& model) {
    EXPECT_EQ(model.parameters().size(), 1u);
    EXPECT_EQ(&model.out, &model.in.weight);
    Sgd optimizer(model, {.lr = 0.5});
    optimizer.zero_grad();
    sum(model(Tensor::ones({1, 2}, {.dtype = model.out.value.dtype()}))).backward();
    optimizer.step();
    EXPECT_EQ(model.in.weight.value.data(), model.out.value.data());
  };
  Tied model;
  model.in.weight.set_requires_grad(false);
  Tied copy = model.clone();
  EXPECT_FALSE(copy.out.requires_grad());
  copy.set_requires_grad(true);
  expect_tied(copy);
  copy.to(DType::bf16);
  EXPECT_TRUE(copy.out.master().defined());
  Tied half = copy.clone();
  EXPECT_EQ(half.out.master().to_vector(), copy.out.master().to_vector());
  expect_tied(copy);
  expect_tied(half);
  half.to(DType::f64);
  expect_tied(half);
  half.to(Device::cpu());
  expect_tied(half);
}

TEST(Module, AClonesStateIsEqualAndItsOwn) {
  Net net;
  net.a.eval();
  net.b.scale.set_requires_grad(false);
  {
    const NoGrad no_grad;
    fill_(net.a.offset, 7);
  }
  Net copy = net.clone();
  const auto mine = net.named_parameters(), its = copy.named_parameters();
  ASSERT_EQ(its.size(), mine.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_EQ(its[i].name, mine[i].name);
    EXPECT_EQ(its[i].parameter->value.to_vector(), mine[i].parameter->value.to_vector());
    EXPECT_EQ(its[i].parameter->requires_grad(), mine[i].parameter->requires_grad());
    EXPECT_NE(its[i].parameter->value.data(), mine[i].parameter->value.data());
  }
  EXPECT_EQ(copy.a.offset.to_vector(), net.a.offset.to_vector());
  EXPECT_FALSE(copy.a.training());
  EXPECT_TRUE(copy.b.training());
  const NoGrad no_grad;
  fill_(net.a.offset, 9);
  EXPECT_EQ(copy.a.offset.to_vector()[0], 7);
}

struct Wide : Layer<Wide> {
  explicit Wide(int64_t width = 4) : width(width) {}
  int64_t width;
  Parameter& w = parameter("w", Tensor::zeros({width}));
  Wide rebuild() const { return Wide(); }  // forgets the width
};

TEST(Module, AnUnfaithfulRebuildIsAnError) {
  EXPECT_EQ(Wide(4).clone().parameters().size(), 1u);
  expect_error<Error>([] { return Wide(5).clone(); },
                      "[clone] Wide: rebuild() made \"w\" (4,), the original has (5,)");
}

TEST(Module, HooksSeeEachOutputUntilTheyAreRemoved) {
  Net net;
  std::vector<Shape> shapes;
  const int id = net.b.add_forward_hook([&](Module& module, const Tensor& y) {
    EXPECT_EQ(&module, &net.b);
    shapes.push_back(y.shape());
  });
  net(Tensor::zeros({3, 2}));
  net.b.remove_forward_hook(id);
  net(Tensor::zeros({4, 2}));
  EXPECT_EQ(shapes, (std::vector<Shape>{{3, 2}}));
}

TEST(Module, AHookMayRemoveItself) {
  Linear layer(1, 1);
  const Tensor x = Tensor::ones({1, 1});
  int calls = 0, first = -1;
  first = layer.add_forward_hook([&](Module& module, const Tensor&) {
    ++calls;
    module.remove_forward_hook(first);
  });
  layer(x);
  layer(x);
  EXPECT_EQ(calls, 1);
}

TEST(Module, AnErrorNamesTheInnermostLayerItCameFrom) {
  Net net;
  std::string text;
  try {
    net(Tensor::zeros({1, 3}));
  } catch (const ShapeError& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "[linear] x (1, 3) has 3 features, weight (2, 2) wants 2 (in Net/a/fc)");
}

struct TwoIn : Layer<TwoIn> {
  std::pair<Tensor, int> forward(const Tensor& a, const Tensor& b, int k) { return {a + b, k}; }
};

TEST(Module, ForwardTakesAndReturnsAnything) {
  TwoIn layer;
  const auto [y, k] = layer(Tensor::ones({1}), Tensor::ones({1}), 3);
  EXPECT_EQ(y.item(), 2);
  EXPECT_EQ(k, 3);
  expect_error<Error>([&] { return layer.call(Tensor::ones({1})); },
                      "[TwoIn] forward does not take one tensor and return one");
}

TEST(Module, FrozenParametersGetNoGradient) {
  Block block;
  block.fc.set_requires_grad(false);
  sum(block(Tensor::ones({1, 2}))).backward();
  EXPECT_FALSE(block.fc.weight.value.grad().defined());
  EXPECT_TRUE(block.scale.value.grad().defined());
  block.zero_grad();
  EXPECT_FALSE(block.scale.value.grad().defined());
  block.set_requires_grad(true);
  sum(block(Tensor::ones({1, 2}))).backward();
  EXPECT_TRUE(block.fc.weight.value.grad().defined());
}

struct Normed : Layer<Normed> {
  Linear& fc = add("fc", Linear(1, 1));
  BatchNorm2d& norm = add("norm", BatchNorm2d(1));
};

TEST(Module, ConvertsWeightsAndLeavesNormalisationInF32) {
  Normed model;
  const std::vector<float> exact = model.fc.weight.value.to_vector();
  model.fc.bias.set_requires_grad(false);
  model.to(DType::bf16);
  EXPECT_EQ(model.fc.weight.value.dtype(), DType::bf16);
  EXPECT_TRUE(model.fc.weight.requires_grad());
  EXPECT_FALSE(model.fc.bias.requires_grad());
  EXPECT_EQ(model.norm.weight.value.dtype(), DType::f32);
  EXPECT_EQ(model.norm.running_var.dtype(), DType::f32);
  EXPECT_EQ(model.fc.weight.master().to_vector(), exact);
  EXPECT_FALSE(model.norm.weight.master().defined());
  model.to(DType::f16);
  EXPECT_EQ(model.fc.weight.master().to_vector(), exact);
  model.to(DType::f32);
  EXPECT_EQ(model.fc.weight.value.to_vector(), exact);
  EXPECT_FALSE(model.fc.weight.master().defined());
  expect_error<ShapeError>(
      [&] {
        return model.fc.weight.set_master(Tensor::ones({1, 1})), 0;
      },
      "[set_master] the master of \"weight\" is (1, 1) f32 cpu, the value is "
      "(1, 1) f32 cpu; a 16-bit value has one in f32");
  model.to(DType::f64);
  EXPECT_EQ(model.norm.running_var.dtype(), DType::f64);
  EXPECT_EQ(model.norm.num_batches_tracked.dtype(), DType::i64);
  expect_error<Error>([&] { return model.to(DType::i32), 0; },
                      "[to] a model computes in a floating");
}

}  // namespace
}  // namespace adret
