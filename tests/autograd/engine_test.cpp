// The graph and the backward pass: accumulation, errors, memory, and nodes written by users.
#include <adret/autograd/engine.h>
#include <adret/autograd/node.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

Tensor leaf(std::initializer_list<float> values) {
  Tensor x = Tensor::from(values, {int64_t(values.size())});
  x.set_requires_grad(true);
  return x;
}

using Values = std::vector<float>;

TEST(Backward, AccumulatesOverUsesAndCalls) {
  Tensor x = leaf({1, 2});
  sum(x * x + x).backward();  // 2 x + 1
  EXPECT_EQ(x.grad().to_vector(), (Values{3, 5}));
  sum(x * 10).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{13, 15}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Backward, DoesNotChangeAGradientThatSomebodyHolds) {
  Tensor x = leaf({1, 2});
  sum(x).backward();
  const Tensor first = x.grad();
  sum(x).backward();
  EXPECT_EQ(first.to_vector(), (Values{1, 1}));
  EXPECT_EQ(x.grad().to_vector(), (Values{2, 2}));
}

TEST(Backward, GivesEachLeafAGradientOfItsOwn) {
  Tensor a = Tensor::ones({2}), b = Tensor::ones({2}), c = Tensor::ones({2});
  for (Tensor* leaf : {&a, &b, &c}) leaf->set_requires_grad(true);
  const Tensor seed = Tensor::full({2}, 3);
  backward({a + b, c.reshape({2})}, {.grad_outputs = {seed, seed}});
  const NoGrad off;
  fill_(a.grad(), 7);
  EXPECT_THAT(b.grad().to_vector(), testing::Each(3));
  EXPECT_THAT(c.grad().to_vector(), testing::Each(3));
  EXPECT_THAT(seed.to_vector(), testing::Each(3));
}

TEST(Backward, WalksAChainOfAHundredThousandAdds) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  y.backward();
  EXPECT_EQ(x.grad().item(), 100001);
}

TEST(Backward, FreesAChainThatNobodyWalked) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  EXPECT_NO_FATAL_FAILURE(y = Tensor());
}

// pytorch/pytorch#39522.
TEST(Backward, AThousandForwardsWithoutItTakeNoMoreMemoryThanOne) {
  const MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  Tensor weight = Tensor::full({64}, 0.5);
  weight.set_requires_grad(true);
  const auto forward = [&] {
    Tensor y = weight;
    for (int i = 0; i < 20; ++i) y = y * weight + 1;
    return sum(y);
  };
  forward();
  const MemoryStats before = pool.stats();
  for (int i = 0; i < 1000; ++i) forward();
  EXPECT_EQ(pool.stats().current, before.current);
  EXPECT_EQ(pool.stats().reserved, before.reserved);
}

TEST(Backward, FreesTheGraphUnlessItIsRetained) {
  Tensor x = leaf({3});
  const Tensor y = x * x;
  y.backward(true);
  y.backward();
  EXPECT_EQ(x.grad().item(), 12);
  expect_error<Error>(
      [&] {
        y.backward();
        return 0;
      },
      "[backward] the graph behind multiply was already freed by an earlier backward");
  // A part that is shared with a freed graph is freed too.
  const Tensor a = x * x, b = a * 2, c = a * 3;
  b.backward();
  expect_error<Error>(
      [&] {
        c.backward();
        return 0;
      },
      "was already freed");
}

TEST(Backward, SaysWhyItCannotStart) {
  const Tensor x = leaf({1, 2});
  expect_error<ShapeError>(
      [&] {
        (x * 2).backward();
        return 0;
      },
      "[backward] the tensor (2,) has 2 elements");
  expect_error<Error>(
      [&] {
        sum(Tensor::ones({2})).backward();
        return 0;
      },
      "[backward] the tensor () has no graph");
  expect_error<Error>(
      [&] {
        NoGrad off;
        sum(x).backward();
        return 0;
      },
      "has no graph");
}

TEST(Leaf, MustBeFloatingAndUnrecorded) {
  Tensor i = Tensor::zeros({2}, {.dtype = DType::i64});
  expect_error<ShapeError>(
      [&] {
        i.set_requires_grad(true);
        return 0;
      },
      "[set_requires_grad] a i64 tensor");
  Tensor y = leaf({1}) * 2;
  expect_error<Error>(
      [&] {
        y.set_requires_grad(false);
        return 0;
      },
      "is the result of multiply; only leaves can change");
  EXPECT_TRUE(leaf({1}).is_leaf());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_FALSE(y.detach().requires_grad());
  expect_error<ShapeError>(
      [&] {
        leaf({1}).set_grad(Tensor::ones({2}));
        return 0;
      },
      "[set_grad]");
}

TEST(NoGrad, RecordsNothingAndEndsWithItsScope) {
  const Tensor x = leaf({1});
  {
    NoGrad off;
    EXPECT_FALSE((x * 2).requires_grad());
    EXPECT_FALSE(grad_enabled());
    GradMode on(true);
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
}

TEST(Grad, LeavesLeavesAloneAndFillsInZeros) {
  Tensor x = leaf({2}), unused = leaf({1, 1});
  const Tensor y = x * x, z = y * x;  // z = x^3
  const std::vector<Tensor> g = grad({z}, {x, y, unused});
  EXPECT_EQ(g[0].item(), 12);  // 3 x^2
  EXPECT_EQ(g[1].item(), 2);   // dz/dy = x
  EXPECT_EQ(g[2].to_vector(), (Values{0, 0}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, OfAGradient) {
  Tensor x = leaf({3});
  const Tensor y = pow(x, 3);
  const Tensor first = grad({y}, {x}, {.create_graph = true})[0];       // 3 x^2
  const Tensor second = grad({first}, {x}, {.create_graph = true})[0];  // 6 x
  const Tensor third = grad({second}, {x})[0];
  EXPECT_FLOAT_EQ(first.item(), 27);
  EXPECT_FLOAT_EQ(second.item(), 18);
  EXPECT_FLOAT_EQ(third.item(), 6);
}

TEST(Grad, TakesTheOutputsGradients) {
  Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  EXPECT_EQ(grad({y}, {x}, {.grad_outputs = {Tensor::from({10.f, 100.f}, {2})}})[0].to_vector(),
            (Values{20, 400}));
  const Tensor z = x * x;
  expect_error<ShapeError>([&] { return grad({z}, {x}, {.grad_outputs = {Tensor::ones({3})}}); },
                           "[grad] grad_outputs holds (3,) f32 cpu for an output (2,) f32 cpu");
  expect_error<ShapeError>(
      [&] {
        return grad({z}, {x}, {.grad_outputs = {z, z}});
      },
      "2 grad_outputs for 1 outputs");
  expect_error<Error>([&] { return grad({sum(z)}, {Tensor::ones({2})}); },
                      "[grad] the input (2,) requires no gradient");
}

TEST(SavedTensor, NoticesThatItWasOverwritten) {
  Tensor x = leaf({1, 2});
  const Tensor w = Tensor::from({3.f, 4.f}, {2});
  const Tensor y = sum(x * w);
  {
    NoGrad off;
    fill_(w, 0);
  }
  expect_error<Error>(
      [&] {
        y.backward();
        return 0;
      },
      "[multiply] a tensor (2,) f32 that backward still needs was written to after the forward "
      "(version 1, saved at 0)");
}

// Two outputs (x + 1, x * 2) from one node, to see which gradients arrive.
struct SplitBackward : Node {
  const char* name() const override { return "split"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    Tensor total;
    if (grads[0].defined()) total = grads[0];
    if (grads[1].defined()) total = total.defined() ? total + grads[1] * 2 : grads[1] * 2;
    return {total};
  }
};
std::pair<Tensor, Tensor> split(const Tensor& x) {
  NoGrad off;
  Tensor a = x + 1, b = x * 2;
  GradMode on(true);
  record<SplitBackward>({a, b}, {x});
  return {a, b};
}

TEST(Node, MayHaveSeveralOutputs) {
  Tensor x = leaf({1});
  auto [a, b] = split(x);
  (a * b).backward();  // (x + 1) * 2 x
  EXPECT_EQ(x.grad().item(), 6);
  x.zero_grad();
  auto [c, d] = split(x);
  d.backward();
  EXPECT_EQ(x.grad().item(), 2);
}

// Returns whatever it was given.
struct WrongBackward : Node {
  std::vector<Tensor> result;
  explicit WrongBackward(std::vector<Tensor> r) : result(std::move(r)) {}
  const char* name() const override { return "wrong"; }
  std::vector<Tensor> backward(const std::vector<Tensor>&) override { return result; }
};
Tensor wrong(const Tensor& x, std::vector<Tensor> result) {
  Tensor y = Tensor::zeros({});
  record<WrongBackward>({y}, {x}, std::move(result));
  return y;
}

TEST(Node, IsToldWhatItReturnedWrongly) {
  const Tensor x = leaf({1, 2});
  expect_error<Error>(
      [&] {
        wrong(x, {}).backward();
        return 0;
      },
      "[wrong] backward returned 0 gradients for 1 inputs");
  expect_error<ShapeError>(
      [&] {
        wrong(x, {Tensor::ones({3})}).backward();
        return 0;
      },
      "[wrong] backward returned a gradient (3,) f32 cpu for input 0, which is (2,) f32 cpu");
  expect_error<ShapeError>(
      [&] {
        wrong(x, {Tensor::ones({2}, {.dtype = DType::f64})}).backward();
        return 0;
      },
      "a gradient (2,) f64 cpu for input 0");
  // An error leaves the graph's other parts usable.
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{2, 4}));
}

// Squares and saves its own output, as exp and tanh do.
struct SaveOwnOutput : Node {
  SavedOutput y;
  explicit SaveOwnOutput(const Tensor& output) : y(output) {}
  const char* name() const override { return "save_own_output"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {grads[0] * y.unpack(*this)};
  }
};

TEST(Node, ThatSavesItsOwnOutputDoesNotLeak) {
  MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  Tensor x = leaf({1, 2, 3});
  const auto once = [&](bool walk) {
    Tensor y = Tensor::ones({3});
    record<SaveOwnOutput>({y}, {x}, y);
    if (walk) sum(y).backward();
    x.zero_grad();
  };
  once(true);
  const size_t before = pool.stats().current;
  for (int i = 0; i < 10000; ++i) once(i % 3 == 0);
  EXPECT_EQ(pool.stats().current, before);
}

TEST(Backward, FreesSavedTensorsAsItGoes) {
  MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  Tensor x = Tensor::ones({1 << 16});
  x.set_requires_grad(true);
  Tensor y = x;
  for (int i = 0; i < 32; ++i) y = y * y;
  y = sum(y);
  pool.reset_peak();
  const size_t held = pool.stats().current;
  y.backward();
  // The walk needs a few buffers at a time, not a second copy of the 32 activations.
  EXPECT_LT(pool.stats().peak - held, size_t(6) * 4 * (1 << 16));
}

// A backward that runs a backward of its own over the same leaf.
struct Nested : Node {
  Tensor x;
  explicit Nested(const Tensor& input) : x(input) {}
  const char* name() const override { return "nested"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    GradMode on(true);
    const Tensor inner = grad({sum(x * x)}, {x})[0];
    NoGrad off;
    return {grads[0] * inner};
  }
};

TEST(Backward, MayStartAnotherInside) {
  Tensor x = leaf({5});
  Tensor y = Tensor::zeros({1});
  record<Nested>({y}, {x}, x);
  (y + x).backward();
  EXPECT_EQ(x.grad().item(), 11);  // 2 x + 1
}

TEST(GradBuffer, IsTheParametersPlaceInItsArenaWhileThatIsFree) {
  const Tensor arena = Tensor::zeros({64}, {.dtype = DType::u8});
  Tensor x = leaf({1, 2});
  leaf_of(x)->slot = arena.segment({2}, 0, DType::f32);
  sum(x * 3).backward();
  EXPECT_EQ(x.grad().data(), arena.data());
  EXPECT_EQ(x.grad().to_vector(), (Values{3, 3}));
  sum(x * 3).backward();  // added in place
  EXPECT_EQ(x.grad().data(), arena.data());
  EXPECT_EQ(x.grad().to_vector(), (Values{6, 6}));
  x.zero_grad();
  sum(x * x + x).backward();  // two uses in one pass
  EXPECT_EQ(x.grad().data(), arena.data());
  EXPECT_EQ(x.grad().to_vector(), (Values{3, 5}));
  // grad() must not write there.
  grad({sum(x * 100)}, {x});
  EXPECT_EQ(x.grad().to_vector(), (Values{3, 5}));
}

// huggingface/candle#2168, #3568: a kernel that was run by hand is no part of the graph, and
// nothing behind it gets a gradient unnoticed.
TEST(Node, AKernelWithoutOneIsNoticedWhenAGradientIsAskedForThroughIt) {
  const Tensor x = leaf({1, 2});
  const Tensor y = Tensor::empty({2});
  run(kernels::Unary{.x = x * 2.0, .y = y, .op = kernels::UnaryOp::exp});
  EXPECT_FALSE(y.requires_grad());
  expect_error<Error>([&] { return sum(y).backward(), 0; },
                      "[backward] the tensor () has no graph: nothing it was computed from "
                      "requires a gradient, or it was computed under NoGrad");
  expect_error<Error>([&] { return grad({sum(y)}, {x}); }, "[grad] the tensor () has no graph");
}

TEST(Leaves, AreThoseBehindTheOutputs) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4}), other = leaf({5, 6});
  const Tensor y = x * w + x, z = w * 2.0;
  const auto behind = [](const std::vector<Tensor>& outputs) { return leaves_behind(outputs); };
  EXPECT_THAT(behind({y, z}), testing::UnorderedElementsAre(leaf_of(x), leaf_of(w)));
  EXPECT_THAT(behind({z}), testing::ElementsAre(leaf_of(w)));
  EXPECT_THAT(behind({other}), testing::ElementsAre(leaf_of(other)));
  EXPECT_THAT(behind({Tensor::ones({2})}), testing::IsEmpty());
  sum(y).backward();  // the graph is still whole
  EXPECT_THAT(x.grad().to_vector(), testing::ElementsAre(4, 5));
}

}  // namespace
}  // namespace adret
