// Rates that fall on plateaus: state, groups, bounds; tests/golden has PyTorch's.
#include <adret/core/error.h>
#include <adret/layers/linear.h>
#include <adret/optim/reduce_on_plateau.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

TEST(ReduceOnPlateau, LowersEveryGroupOfEveryOptimizer) {
  Linear one(1, 1), other(1, 1);
  Sgd first({{{one.parameters()[0]}, {.lr = 1}}, {{one.parameters()[1]}, {.lr = 0.5}}});
  Sgd second(other, {.lr = 0.25});
  ReduceOnPlateau plateau({&first, &second}, {.factor = 0.5, .patience = 1, .lowest = 0.25});
  for (const double loss : {2.0, 2.0}) EXPECT_FALSE(plateau.step(loss));
  EXPECT_TRUE(plateau.step(2));
  EXPECT_EQ(first.lr(0), 0.5);
  EXPECT_EQ(first.lr(1), 0.25);
  EXPECT_EQ(second.lr(), 0.25);
}

TEST(ReduceOnPlateau, GoesOnFromItsState) {
  Linear fc(1, 1);
  Sgd optimizer(fc, {.lr = 1});
  const ReduceOnPlateauOptions options{.factor = 0.5, .patience = 2, .cooldown = 1};
  ReduceOnPlateau straight(optimizer, options), first(optimizer, options);
  const std::vector<double> losses = {3, 2, 2.5, 2, 2, 2, 1, 1, 1, 1, 1, 1};
  std::vector<bool> reduced, resumed;
  for (const double loss : losses) reduced.push_back(straight.step(loss));
  for (size_t i = 0; i < 4; ++i) resumed.push_back(first.step(losses[i]));
  ReduceOnPlateau second(optimizer, options);
  second.load_state(first.state());
  for (size_t i = 4; i < losses.size(); ++i) resumed.push_back(second.step(losses[i]));
  EXPECT_EQ(resumed, reduced);
  EXPECT_GT(std::ranges::count(reduced, true), 1);
}

TEST(ReduceOnPlateau, TakesNanForABadEvaluation) {
  Linear fc(1, 1);
  Sgd optimizer(fc, {.lr = 1});
  ReduceOnPlateau plateau(optimizer, {.patience = 0});
  EXPECT_TRUE(plateau.step(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(plateau.step(5));
  EXPECT_EQ(plateau.state().best, 5);
  EXPECT_TRUE(plateau.step(std::numeric_limits<double>::quiet_NaN()));
}

// The threshold is a part of the size of the best one, or every negative loss would be better.
TEST(ReduceOnPlateau, OfNegativeLossesWantsLowerOnes) {
  Linear model(1, 1);
  Sgd optimizer(model, {.lr = 1});
  ReduceOnPlateau plateau(optimizer, {.patience = 0, .threshold = 0.1});
  EXPECT_FALSE(plateau.step(-10));
  EXPECT_TRUE(plateau.step(-10.5));
  EXPECT_TRUE(plateau.step(-9.5));
  EXPECT_FALSE(plateau.step(-11.5));
  EXPECT_EQ(plateau.state().best, -11.5);
}

TEST(ReduceOnPlateau, RefusesNoOptimizersAndNullOnes) {
  using List = std::vector<Optimizer*>;
  expect_error<Error>([] { ReduceOnPlateau(List{}, {}); },
                      "[ReduceOnPlateau] the list of optimizers is empty");
  expect_error<Error>([] { ReduceOnPlateau(List{nullptr}, {}); },
                      "[ReduceOnPlateau] optimizer 0 is null");
}

TEST(ReduceOnPlateau, RefusesOptionsOutOfRange) {
  Linear fc(1, 1);
  Sgd optimizer(fc, {.lr = 1});
  expect_error<Error>([&] { return ReduceOnPlateau(optimizer, {.factor = 1}); },
                      "[ReduceOnPlateau] factor is 1; it must be at least 0 and below 1");
  expect_error<Error>([&] { return ReduceOnPlateau(optimizer, {.patience = -1}); },
                      "[ReduceOnPlateau] patience is -1");
  ReduceOnPlateau plateau(optimizer);
  expect_error<Error>([&] { return plateau.load_state({.bad = -1}), 0; },
                      "[ReduceOnPlateau] a state cannot have -1 bad");
}

}  // namespace
}  // namespace adret
