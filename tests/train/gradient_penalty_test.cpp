// A critic that is trained with a penalty on its gradient, by second derivatives.
#include <adret/autograd/engine.h>
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/group_norm.h>
#include <adret/layers/linear.h>
#include <adret/optim/adam.h>
#include <adret/train/step.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "tests/support/close.h"
#include "tests/support/hashed.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

struct Critic : Layer<Critic> {
  Conv2d& conv = add("conv", Conv2d(1, 4, {.kernel = 3, .stride = 2, .padding = 1}));
  Linear& hidden = add("hidden", Linear(4 * 3 * 3, 8));
  LayerNorm& norm = add("norm", LayerNorm(8));
  Linear& head = add("head", Linear(8, 1));
  Tensor forward(const Tensor& x) {
    const Tensor h = leaky_relu(conv(x), 0.2);
    return head(tanh(norm(hidden(h.reshape({-1, 4 * 3 * 3})))));
  }
};

Tensor images(const char* name, DType dtype) {
  return Tensor::from(hashed_unit(name, 6 * 6 * 6), {6, 6, 6, 1}).to(dtype);
}

// The mean over the samples of (|d(critic)/dx| - 1)^2 (Gulrajani et al. 2017).
Tensor penalty_at(Critic& critic, const Tensor& where) {
  Tensor x = where.detach();
  x.set_requires_grad(true);
  const Tensor dx = grad({sum(critic(x))}, {x}, {.create_graph = true})[0];
  const Tensor norms = sqrt(sum(square(dx), {.dims = {1, 2, 3}}) + 1e-12);
  return mean(square(norms - 1));
}

struct Training {
  Training() {
    random::manual_seed(12);
    critic = std::make_unique<Critic>();
    optimizer = std::make_unique<Adam>(*critic, AdamOptions{.lr = 0.002, .beta1 = 0.5});
  }

  Tensor operator()(const Tensor& real, const Tensor& fake) {
    optimizer->zero_grad();
    const Tensor penalty = penalty_at(*critic, real * 0.25 + fake * 0.75);
    const Tensor loss = mean((*critic)(fake)) - mean((*critic)(real)) + penalty * 10;
    loss.backward();
    optimizer->step();
    return penalty;
  }

  std::vector<double> penalties(StepMode mode, StepReport* report = nullptr) {
    Step step([this](const Tensor& real, const Tensor& fake) { return (*this)(real, fake); },
              {.mode = mode});
    const Tensor real = images("real", DType::f32), fake = images("fake", DType::f32);
    std::vector<double> all;
    for (int i = 0; i < 100; ++i) all.push_back(double(step(real, fake).item()));
    if (report) *report = step.report();
    return all;
  }

  std::unique_ptr<Critic> critic;
  std::unique_ptr<Adam> optimizer;
};

TEST(GradientPenalty, FallsAsTheCriticIsTrained) {
  const std::vector<double> penalties = Training().penalties(StepMode::eager);
  EXPECT_GT(penalties.front(), 0.1);
  const double last = std::accumulate(penalties.end() - 20, penalties.end(), 0.0) / 20;
  EXPECT_LT(last, 0.2 * penalties.front());
}

TEST(GradientPenalty, IsReplayed) {
  StepReport report;
  std::vector<double> replayed = Training().penalties(StepMode::graph, &report);
  std::vector<double> eager = Training().penalties(StepMode::eager);
  EXPECT_GE(report.replays, 96) << report.reason;
  // Where replays round otherwise Adam makes much of it, with time.
  if (test_device() == TestDevice::cuda) {
    replayed.resize(10);
    eager.resize(10);
  }
  expect_as_eager(replayed, eager, 1e-2);
}

// Against central differences of the penalty in f64, for every parameter.
TEST(GradientPenalty, HasTheGradientOfItsDifferences) {
  random::manual_seed(12);
  Critic critic;
  critic.to(DType::f64);
  const Tensor x = images("real", DType::f64);
  penalty_at(critic, x).backward();
  const double step = 1e-5;
  for (const auto& [name, parameter] : critic.named_parameters()) {
    if (name == "head.bias") {  // it moves the scores alone
      EXPECT_FALSE(parameter->value.grad().defined());
      continue;
    }
    const std::vector<double> gradient = parameter->value.grad().to_vector<double>();
    const auto elements = parameter->value.span<double>();
    for (size_t i = 0; i < elements.size(); i += 1 + elements.size() / 9) {
      const double value = elements[i];
      elements[i] = value + step;
      const double above = penalty_at(critic, x).item<double>();
      elements[i] = value - step;
      const double below = penalty_at(critic, x).item<double>();
      elements[i] = value;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-6 * (1 + std::abs(gradient[i])))
          << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace adret
