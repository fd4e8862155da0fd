// Schedules against PyTorch 1.13, with a base rate of 0.5 and one scheduler step after each
// optimizer step; o.param_groups[0]['lr'] at each step.
#include <adret/core/error.h>
#include <adret/optim/lr_schedule.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

// Asked in another order than a run would, as a resumed run does.
void expect_rates(const LrSchedule& schedule, const std::vector<double>& wanted) {
  for (size_t k = wanted.size(); k-- > 0;) {
    EXPECT_NEAR(schedule(int64_t(k)), wanted[k], 1e-11) << "step " << k;
  }
}

TEST(LrSchedule, ConstantStays) { expect_rates(constant_lr(0.25), {0.25, 0.25, 0.25}); }

TEST(LrSchedule, StepMatchesPyTorch) {  // StepLR(o, 3, 0.1)
  expect_rates(step_lr({.lr = 0.5, .every = 3}),
               {0.5, 0.5, 0.5, 0.05, 0.05, 0.05, 0.005, 0.005, 0.005, 0.0005});
}

TEST(LrSchedule, CosineMatchesPyTorch) {  // CosineAnnealingLR(o, 10, eta_min=0.05)
  expect_rates(cosine_lr({.lr = 0.5, .steps = 10, .final_lr = 0.05}),
               {0.5, 0.488987716166, 0.457028823734, 0.407251681766, 0.344528823734, 0.275,
                0.205471176266, 0.142748318234, 0.0929711762656, 0.0610122838336, 0.05, 0.05});
}

// SequentialLR(o, [LinearLR(o, 1/5, 1, 4), CosineAnnealingLR(o, 8)], [4])
TEST(LrSchedule, CosineWithWarmupMatchesPyTorch) {
  expect_rates(cosine_lr({.lr = 0.5, .steps = 12, .warmup_steps = 4}),
               {0.1, 0.2, 0.3, 0.4, 0.5, 0.480969883128, 0.426776695297, 0.345670858091, 0.25,
                0.154329141909, 0.0732233047034, 0.0190301168722});
}

TEST(LrSchedule, OneCycleMatchesPyTorch) {
  // OneCycleLR(o, max_lr=1.0, total_steps=10)
  expect_rates(one_cycle_lr({.max_lr = 1, .steps = 10}),
               {0.04, 0.52, 1, 0.950484632013, 0.81174565395, 0.611262021936, 0.388741978064,
                0.18825834605, 0.0495193679865, 4e-06, 4e-06});
  // OneCycleLR(o, max_lr=0.3, total_steps=20, pct_start=0.25, div_factor=10, final_div_factor=100)
  expect_rates(one_cycle_lr({.max_lr = 0.3,
                             .steps = 20,
                             .warmup = 0.25,
                             .initial_divisor = 10,
                             .final_divisor = 100}),
               {0.03,
                0.0695405845398,
                0.165,
                0.26045941546,
                0.3,
                0.29672541797,
                0.287044786828,
                0.271381196607,
                0.250419221363,
                0.225075,
                0.196456196607,
                0.165813590221,
                0.134486409779,
                0.103843803393,
                0.075225,
                0.0498807786371,
                0.0289188033929,
                0.0132552131723,
                0.00357458203004,
                0.0003});
}

TEST(LrSchedule, OneCycleWorksAtItsEnds) {
  const LrSchedule all_warmup = one_cycle_lr({.max_lr = 1, .steps = 5, .warmup = 1});
  EXPECT_DOUBLE_EQ(all_warmup(4), 1);
  const LrSchedule no_warmup = one_cycle_lr({.max_lr = 1, .steps = 5, .warmup = 0});
  EXPECT_LE(no_warmup(0), 1);
  EXPECT_DOUBLE_EQ(one_cycle_lr({.max_lr = 1, .steps = 1})(0), 4e-6);
}

TEST(LrSchedule, RefusesOptionsOutOfRange) {
  expect_error<Error>([] { return constant_lr(-1); },
                      "[constant_lr] lr is -1; it must be finite and not negative");
  expect_error<Error>([] { return step_lr({.lr = 1}); },
                      "[step_lr] every is 0; it must be above 0");
  expect_error<Error>([] { return cosine_lr({.lr = 1}); }, "[cosine_lr] steps is 0");
  expect_error<Error>([] { return cosine_lr({.lr = 1, .steps = 4, .warmup_steps = 4}); },
                      "[cosine_lr] warmup_steps is 4; it must be at least 0 and below steps");
  expect_error<Error>([] { return one_cycle_lr({.max_lr = 1, .steps = 4, .warmup = 2}); },
                      "[one_cycle_lr] warmup is 2; it must be in 0..1");
  expect_error<Error>(
      [] {
        return multi_step_lr({.lr = 1, .milestones = {4, 4}});
      },
      "[multi_step_lr] a milestone is 4; it must be above 0 and above the one");
  expect_error<Error>([] { return exponential_lr({.lr = 1}); },
                      "[exponential_lr] factor is 0; it must be above 0");
  expect_error<Error>([] { return linear_lr({.lr = 1}); }, "[linear_lr] steps is 0");
  expect_error<Error>([] { return polynomial_lr({.lr = 1, .steps = 4, .power = 0}); },
                      "[polynomial_lr] power is 0; it must be above 0");
  expect_error<Error>([] { return cosine_restarts_lr({.lr = 1}); },
                      "[cosine_restarts_lr] period is 0");
  expect_error<Error>([] { return sequence_lr({constant_lr(1)}, {5}); },
                      "[sequence_lr] 1 schedules want one milestone fewer, got 1");
  expect_error<Error>(
      [] {
        return sequence_lr({constant_lr(1), constant_lr(2)}, {0});
      },
      "[sequence_lr] a milestone is 0; it must be above 0");
}

TEST(LrSchedule, WantsItsRatesAndSchedules) {
  expect_error<Error>([] { return cosine_lr({.steps = 4}); }, "[cosine_lr] lr is nan");
  expect_error<Error>([] { return one_cycle_lr({.steps = 4}); }, "[one_cycle_lr] max_lr is nan");
  expect_error<Error>(
      [] {
        return sequence_lr({constant_lr(1), LrSchedule()}, {2});
      },
      "[sequence_lr] schedule 1 is empty");
}

TEST(LrSchedule, StaysAtItsStartBeforeIt) {
  const LrSchedule polynomial = polynomial_lr({.lr = 0.5, .steps = 4, .power = 2});
  EXPECT_EQ(polynomial(-3), 0.5);
  EXPECT_EQ(polynomial(-1000000), 0.5);
  EXPECT_EQ(linear_lr({.lr = 1, .steps = 4, .start_factor = 0.25})(-4), 0.25);
}

TEST(LrSchedule, SequencesCountEachSchedulesOwnSteps) {
  const LrSchedule sequence = sequence_lr({linear_lr({.lr = 1, .steps = 4, .start_factor = 0}),
                                           step_lr({.lr = 1, .every = 2, .factor = 0.5})},
                                          {4});
  expect_rates(sequence, {0, 0.25, 0.5, 0.75, 1, 1, 0.5, 0.5, 0.25});
}

}  // namespace
}  // namespace adret
