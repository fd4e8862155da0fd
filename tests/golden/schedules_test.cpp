// Learning-rate schedules step by step against PyTorch. make_optim.py made the file.
#include <adret/layers/linear.h>
#include <adret/optim/lr_schedule.h>
#include <adret/optim/reduce_on_plateau.h>
#include <adret/optim/sgd.h>
#include <adret/train/safetensors.h>
#include <gtest/gtest.h>

#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

Values golden(const std::string& name) {
  static const auto all = read_golden("schedules.safetensors");
  return all.at(name).to_vector<double>();
}

void expect_rates(const std::string& name, const LrSchedule& schedule) {
  const Values wanted = golden(name);
  Values rates;
  for (size_t step = 0; step < wanted.size(); ++step) rates.push_back(schedule(int64_t(step)));
  // PyTorch multiplies from step to step.
  expect_close(rates, wanted, {.relative = 1e-13, .absolute = 1e-15}, name);
}

TEST(GoldenSchedules, FollowPyTorch) {
  expect_rates("polynomial", polynomial_lr({.lr = 0.5, .steps = 30, .power = 2}));
  expect_rates("exponential", exponential_lr({.lr = 0.5, .factor = 0.9}));
  expect_rates("multi_step", multi_step_lr({.lr = 0.5, .milestones = {5, 6, 20}, .factor = 0.3}));
  expect_rates("linear",
               linear_lr({.lr = 0.5, .steps = 12, .start_factor = 0.1, .end_factor = 0.8}));
  expect_rates("step", step_lr({.lr = 0.5, .every = 7, .factor = 0.3}));
  expect_rates("cosine", cosine_lr({.lr = 0.5, .steps = 40, .final_lr = 0.01}));
  expect_rates("one_cycle", one_cycle_lr({.max_lr = 0.5, .steps = 41}));
  expect_rates("one_cycle_late", one_cycle_lr({.max_lr = 0.5,
                                               .steps = 41,
                                               .warmup = 0.7,
                                               .initial_divisor = 10,
                                               .final_divisor = 100}));
  expect_rates("restarts", cosine_restarts_lr({.lr = 0.5, .period = 7, .final_lr = 0.01}));
  expect_rates("growing_restarts",
               cosine_restarts_lr({.lr = 0.5, .period = 3, .period_factor = 2}));
  expect_rates("sequence", sequence_lr({linear_lr({.lr = 0.5, .steps = 6, .start_factor = 0.25}),
                                        exponential_lr({.lr = 0.5, .factor = 0.8}),
                                        step_lr({.lr = 0.5, .every = 4, .factor = 0.5})},
                                       {6, 15}));
}

void expect_plateau(const std::string& name, const Values& metrics,
                    const ReduceOnPlateauOptions& options) {
  Linear fc(1, 1);
  Sgd optimizer(fc, {.lr = 0.5});
  ReduceOnPlateau plateau(optimizer, options);
  Values rates;
  for (const double metric : metrics) {
    const double before = optimizer.lr();
    const bool reduced = plateau.step(metric);
    EXPECT_TRUE(reduced || optimizer.lr() == before);
    rates.push_back(optimizer.lr());
  }
  expect_close(rates, golden(name), {.relative = 1e-14}, name);
}

TEST(GoldenSchedules, OnPlateausFollowPyTorch) {
  const Values metrics = golden("plateau.metrics");
  Values accuracies;
  for (const double metric : metrics) accuracies.push_back(1 - metric);
  expect_plateau("plateau.loss", metrics, {.factor = 0.5, .patience = 2});
  expect_plateau("plateau.cooling", metrics,
                 {.factor = 0.3,
                  .patience = 1,
                  .threshold = 0.02,
                  .absolute = true,
                  .cooldown = 2,
                  .lowest = 0.01});
  expect_plateau("plateau.accuracy", accuracies,
                 {.higher_is_better = true, .factor = 0.5, .patience = 1, .threshold = 0.05});
}

}  // namespace
}  // namespace adret
