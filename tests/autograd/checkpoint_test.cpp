// Checkpoints against the same function without: results, gradients, masks, memory, refusals.
#include <adret/autograd/checkpoint.h>
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/backend.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/memory_pool.h>
#include <adret/core/random.h>
#include <adret/layers/init.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

// Of an input and a weight that it holds on to; with dropout and what saves outputs.
struct Net {
  Tensor weight = variable({6, 6}, 40);
  Tensor operator()(const Tensor& x) const {
    return tanh(dropout(gelu(matmul(x, weight)), 0.4, true)) * sigmoid(x);
  }
};

TEST(Checkpoint, HasTheResultGradientsAndMasksOfTheFunction) {
  random::manual_seed(3);
  const Net net;
  const Tensor x = variable({5, 6});
  random::begin_step(0);
  const Tensor plain = net(net(x));
  const std::vector<Tensor> wanted = gradients(plain, {x, net.weight});
  random::begin_step(0);
  const Tensor y = checkpoint(net, checkpoint(net, x));
  EXPECT_EQ(y.to_vector<double>(), plain.to_vector<double>());
  const std::vector<Tensor> found = gradients(y, {x, net.weight});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i].to_vector<double>(), wanted[i].to_vector<double>());
  }
}

TEST(Checkpoint, DrawsOnAsIfItHadRunOnce) {
  const Net net;
  const Tensor x = variable({5, 6});
  random::begin_step(0);
  (void)net(x);
  const Tensor wanted = dropout(x, 0.5, true);
  random::begin_step(0);
  const Tensor y = checkpoint(net, x);
  (void)gradients(y, {x});
  EXPECT_EQ(dropout(x, 0.5, true).to_vector<double>(), wanted.to_vector<double>());
}

TEST(Checkpoint, HasSecondDerivatives) {
  const auto function = [](const std::vector<Tensor>& in) {
    return checkpoint([](const Tensor& a, const Tensor& b) { return tanh(matmul(a, b)) * gelu(a); },
                      in[0], in[1]);
  };
  expect_gradients(function, {variable({3, 3}), variable({3, 3}, 20)});
}

TEST(Checkpoint, OfACheckpoint) {
  const auto inner = [](const Tensor& x) { return tanh(x * x); };
  const auto function = [inner](const std::vector<Tensor>& in) {
    return checkpoint([inner](const Tensor& x) { return gelu(checkpoint(inner, x)) * x; }, in[0]);
  };
  expect_gradients(function, {variable({4})});
}

TEST(Checkpoint, CanBeWalkedAgain) {
  const Tensor x = variable({4});
  const Tensor y = checkpoint([](const Tensor& in) { return tanh(in * in); }, x);
  const auto first = grad({sum(y)}, {x}, {.retain_graph = true})[0].to_vector<double>();
  EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector<double>(), first);
}

TEST(Checkpoint, UpdatesRunningStatisticsOnce) {
  const Tensor x = variable({8, 3});
  const auto run = [&](bool again) {
    const Tensor mean = Tensor::zeros({3}, {.dtype = DType::f64});
    const Tensor var = Tensor::ones({3}, {.dtype = DType::f64});
    const Tensor count = Tensor::zeros({}, {.dtype = DType::i64});
    const auto norm = [&](const Tensor& in) {
      return batch_norm(in, {}, {}, mean, var, {.num_batches_tracked = count});
    };
    const Tensor y = again ? checkpoint(norm, x) : norm(x);
    const auto dx = gradients(y, {x})[0].to_vector<double>();
    EXPECT_EQ(count.item<int64_t>(), 1);
    return std::vector{mean.to_vector<double>(), var.to_vector<double>(), dx};
  };
  EXPECT_EQ(run(true), run(false));
}

// Eight layers keep eight tensors, eight checkpoints one layer's at a time.
TEST(Checkpoint, KeepsLessInMemory) {
  const Tensor x = Tensor::ones({256, 1024});
  Tensor leaf = x.clone();
  leaf.set_requires_grad(true);
  const auto layer = [](const Tensor& in) { return tanh(sigmoid(tanh(sigmoid(in)))); };
  MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  const auto peak_of = [&](bool checkpoints) {
    const size_t before = pool.stats().current;
    pool.reset_peak();
    Tensor h = leaf;
    for (int i = 0; i < 8; ++i) h = checkpoints ? checkpoint(layer, h) : layer(h);
    (void)grad({sum(h)}, {leaf});
    return double(pool.stats().peak - before) / double(x.bytes());
  };
  EXPECT_GE(peak_of(false), 32);  // four results in each of eight layers
  EXPECT_LE(peak_of(true), 22);   // an input each, and one layer's results and gradients
}

TEST(Checkpoint, WithoutAGraphIsTheFunction) {
  const NoGrad no_grad;
  const Tensor y = checkpoint([](const Tensor& in) { return in * 2; }, sequence({3}));
  EXPECT_FALSE(y.requires_grad());
}

// Numbers of every stream that a function can draw from, and of the step.
TEST(Checkpoint, DrawsTheSameNumbersWhateverHappenedInBetween) {
  const TensorOptions wide{.dtype = DType::f64};
  const auto draw = [&](const Tensor& in) {
    Tensor weight = Tensor::empty({6}, wide);
    init::normal_(weight, 0, 1);
    const Tensor factors = dropout(weight, 0.5, true) + rand({6}, wide) + randn({6}, wide) +
                           bernoulli(Tensor::full({6}, 0.5, wide)) +
                           randint(0, 9, {6}).to(DType::f64) + randperm(6).to(DType::f64);
    return square(in * factors);
  };
  Tensor x = Tensor::ones({6}, wide);
  x.set_requires_grad(true);
  const auto gradient_of = [&](const Tensor& y) { return grad({sum(y)}, {x})[0]; };
  const std::function<void()> nothing = [] {};
  const std::function<void()> in_between[] = {nothing, [] { random::manual_seed(99); },
                                              [] { random::begin_step(8); },
                                              [&] {
                                                random::begin_step(0);
                                                (void)draw(x);
                                              }};
  for (const auto& happens : in_between) {
    for (const bool on_another_thread : {false, true}) {
      random::manual_seed(7);
      random::begin_step(3);
      const Tensor y = checkpoint(draw, x);
      const std::vector<double> wanted = (y * 2).detach().to_vector<double>();
      happens();
      const RandomKey next_before = random::next(RandomStream::user);
      Tensor found;
      if (on_another_thread) {
        std::thread([&] { found = gradient_of(y); }).join();
      } else {
        found = gradient_of(y);
      }
      EXPECT_EQ(found.to_vector<double>(), wanted);
      const RandomKey next = random::next(RandomStream::user);
      EXPECT_EQ(next.seed, next_before.seed);
      EXPECT_EQ(next.call, next_before.call + 1);
    }
  }
}

TEST(Checkpoint, RefusesNoFunction) {
  expect_error<Error>([] { return checkpoint({}, {variable({4})}); },
                      "[checkpoint] the function is empty");
}

TEST(Checkpoint, RunsAgainInTheComputeModeOfTheForward) {
  const Tensor x = variable({4});
  std::vector<MathMode> modes;
  Tensor y;
  {
    ComputeMode mode = compute_mode();
    mode.math = MathMode::tf32;
    const ComputeModeScope fast(mode);
    y = checkpoint(
        [&modes](const Tensor& in) {
          modes.push_back(compute_mode().math);
          return tanh(in) * in;
        },
        x);
  }
  (void)gradients(y, {x});
  EXPECT_EQ(modes, (std::vector<MathMode>{MathMode::tf32, MathMode::tf32}));
  EXPECT_EQ(compute_mode().math, MathMode::exact);
}

TEST(Checkpoint, RefusesAFunctionThatDiffers) {
  const Tensor x = variable({4});
  int runs = 0;
  const Tensor z = checkpoint(
      [&runs](const Tensor& in) { return runs++ == 0 ? tanh(in) * in : tanh(tanh(in)) * in; }, x);
  expect_error<Error>([&] { (void)gradients(z, {x}); },
                      "a checkpoint's function saved 3 tensors in the forward pass and 4 in "
                      "backward; it must do the same both times");
}

// Though no node saves them.
TEST(Checkpoint, FindsThatAnInputOrALeafWasWrittenTo) {
  const auto bias = variable({3});
  for (const bool input : {false, true}) {
    const Tensor x = variable({3});
    const Tensor y = checkpoint([&](const Tensor& in) { return tanh(in + bias); }, x);
    {
      const NoGrad no_grad;
      fill_(input ? x : bias, 1);
    }
    expect_error<Error>([&] { (void)gradients(y, {x}); },
                        "that a checkpoint computes with was written to after the forward");
  }
}

TEST(Checkpoint, FindsThatAWeightWasWrittenTo) {
  const Tensor x = variable({3, 3}), weight = variable({3, 3}, 30);
  const Tensor y = checkpoint([&](const Tensor& in) { return matmul(in, weight); }, x);
  {
    const NoGrad no_grad;
    fill_(weight, 1);
  }
  expect_error<Error>([&] { (void)gradients(y, {x}); }, "was written to after the forward");
}

}  // namespace
}  // namespace adret
