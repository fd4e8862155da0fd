// L-BFGS: where it ends, state, what it refuses, and its line search; tests/golden has PyTorch's.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/layers/linear.h>
#include <adret/optim/lbfgs.h>
#include <adret/optim/line_search.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

// (weight - wanted)^2 times scales, in f64; `spare` is a parameter that may have no part in it.
struct Parabola : Layer<Parabola> {
  Parameter& weight = parameter("weight", Tensor::from(Values{3, -2, 1}, {3}));
  Parameter& spare = parameter("spare", Tensor::from(Values{5}, {1}));
  const Tensor scales = Tensor::from(Values{1, 10, 100}, {3});
  const Tensor wanted = Tensor::from(Values{0.5, 1, -1}, {3});

  Lbfgs::Closure closure(Optimizer& optimizer, bool uses_spare = false) {
    return [this, &optimizer, uses_spare] {
      ++calls;
      optimizer.zero_grad();
      Tensor loss = sum(scales * square(weight.value - wanted));
      if (uses_spare) loss = loss + sum(square(spare.value));
      loss.backward();
      return loss;
    };
  }
  Values values() const { return weight.value.to_vector<double>(); }
  int calls = 0;
};

TEST(Lbfgs, FindsAMinimumAndStaysThere) {
  Parabola model;
  Lbfgs optimizer(model, {.line_search = LineSearch::strong_wolfe});
  EXPECT_NEAR(optimizer.step(model.closure(optimizer)), 6.25 + 90 + 400, 1e-9);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(model.values()[i], model.wanted.to_vector<double>()[i], 1e-4);  // 1e-9 of the loss
  }
  EXPECT_EQ(model.spare.value.item<double>(), 5);
  for (int i = 0; i < 2; ++i) optimizer.step(model.closure(optimizer));
  const Values there = model.values();
  model.calls = 0;
  optimizer.step(model.closure(optimizer));
  EXPECT_LE(model.calls, 2);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(model.values()[i], there[i], 1e-7);
}

TEST(Lbfgs, LeavesAFrozenParameterAlone) {
  Parabola model;
  model.spare.set_requires_grad(false);
  Lbfgs optimizer(model, {.line_search = LineSearch::strong_wolfe});
  optimizer.step(model.closure(optimizer, true));
  EXPECT_EQ(model.spare.value.item<double>(), 5);
  EXPECT_NEAR(model.values()[0], 0.5, 1e-4);
}

TEST(Lbfgs, EndsAfterItsIterationsAndEvaluations) {
  Parabola model;
  Lbfgs optimizer(model, {.lr = 1e-3, .max_iter = 3});
  optimizer.step(model.closure(optimizer));
  EXPECT_EQ(model.calls, 3);  // none behind the last move
  Parabola other;
  Lbfgs few(other, {.lr = 1e-3, .max_iter = 10, .max_eval = 2});
  few.step(other.closure(few));
  EXPECT_EQ(other.calls, 2);
}

TEST(Lbfgs, TakesGradientsOfWhatHasSome) {
  // `spare` has a gradient in the first step alone; what its place holds is not taken again.
  Parabola model;
  Lbfgs optimizer(model, {.lr = 0.1, .max_iter = 1});
  optimizer.step(model.closure(optimizer, true));
  const double moved = model.spare.value.item<double>();
  EXPECT_NE(moved, 5);
  Parabola other;
  Lbfgs without(other, {.lr = 0.1, .max_iter = 1});
  without.step(other.closure(without));
  EXPECT_EQ(other.spare.value.item<double>(), 5);
}

TEST(Lbfgs, GoesOnFromItsState) {
  for (const LineSearch search : {LineSearch::none, LineSearch::strong_wolfe}) {
    const LbfgsOptions options{.lr = 0.3, .max_iter = 2, .history_size = 3, .line_search = search};
    Parabola straight, resumed;
    Lbfgs whole(straight, options);
    for (int i = 0; i < 5; ++i) whole.step(straight.closure(whole));
    OptimizerState state;
    {
      Lbfgs first(resumed, options);
      for (int i = 0; i < 3; ++i) first.step(resumed.closure(first));
      state = first.state();
    }
    Lbfgs second(resumed, {.lr = 7, .history_size = 1});
    second.load_state(state);
    EXPECT_EQ(second.lr(), 0.3);
    for (int i = 0; i < 2; ++i) second.step(resumed.closure(second));
    EXPECT_EQ(resumed.values(), straight.values());
  }
}

TEST(Lbfgs, RefusesWhatDoesNotGoWithIt) {
  Parabola model;
  {
    Lbfgs optimizer(model);
    model.closure(optimizer)();
    Optimizer& base = optimizer;
    expect_error<Error>([&] { return base.step(), 0; },
                        "[lbfgs] a step evaluates the loss several times; give it the function");
  }
  Linear half(2, 2);
  half.to(DType::bf16);
  expect_error<Error>([&] { return Lbfgs(half).lr(); },
                      "[lbfgs] the parameter \"weight\" is bf16; all must be f32 or all f64");
  expect_error<Error>([&] { return Lbfgs(model, {.history_size = 0}).lr(); },
                      "[lbfgs] history_size is 0");
  expect_error<Error>([&] { return Lbfgs(model, {.max_iter = 0}).lr(); }, "[lbfgs] max_iter is 0");
}

// f and its slope as a function of t, counting evaluations.
template <class F, class Slope>
LineFunction line(F f, Slope slope, int& evaluations) {
  return [=, &evaluations](double t) {
    ++evaluations;
    return LinePoint{.t = t, .value = f(t), .slope = slope(t)};
  };
}

template <class F, class Slope>
void expect_wolfe(F f, Slope slope, double guess) {
  int evaluations = 0;
  const LinePoint start{.t = 0, .value = f(0), .slope = slope(0)};
  const LinePoint end = strong_wolfe(line(f, slope, evaluations), start, guess, 1e-12);
  EXPECT_LE(end.value, start.value + 1e-4 * end.t * start.slope) << guess;
  EXPECT_LE(std::abs(end.slope), 0.9 * std::abs(start.slope)) << guess;
  EXPECT_EQ(end.value, f(end.t));
  EXPECT_LE(evaluations, 26);
}

TEST(StrongWolfe, FindsAStepFromAnyGuess) {
  for (const double guess : {1e-6, 1e-3, 0.3, 1.0, 7.0, 1e3, 1e6}) {
    expect_wolfe([](double t) { return (t - 2) * (t - 2); }, [](double t) { return 2 * (t - 2); },
                 guess);
    // Moré and Thuente 1994, the first of their functions.
    expect_wolfe([](double t) { return -t / (t * t + 2); },
                 [](double t) { return (t * t - 2) / ((t * t + 2) * (t * t + 2)); }, guess);
    // Waves upon a parabola.
    expect_wolfe([](double t) { return (t - 3) * (t - 3) + std::sin(4 * t); },
                 [](double t) { return 2 * (t - 3) + 4 * std::cos(4 * t); }, guess);
  }
}

TEST(StrongWolfe, GivesTheLowestOfWhatItSawWhereThereIsNoEnd) {
  int evaluations = 0;
  const auto falling = line([](double t) { return -t; }, [](double) { return -1.0; }, evaluations);
  const LinePoint end = strong_wolfe(falling, {.t = 0, .value = 0, .slope = -1}, 1, 1e-12);
  EXPECT_GT(end.t, 1e6);
  EXPECT_EQ(evaluations, 26);
}

TEST(StrongWolfe, EndsWhereThereIsAValue) {
  const LineFunction parabola_and_nothing = [](double t) {
    const double value = t < 1 ? (t - 0.5) * (t - 0.5) : std::nan("");
    return LinePoint{.t = t, .value = value, .slope = 2 * (t - 0.5)};
  };
  const LinePoint end =
      strong_wolfe(parabola_and_nothing, {.t = 0, .value = 0.25, .slope = -1}, 3, 1e-12);
  EXPECT_LT(end.value, 0.25);
}

}  // namespace
}  // namespace adret
