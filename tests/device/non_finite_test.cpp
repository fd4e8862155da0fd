// Steps that are not finite on a second device, where the host looks late.
#include "tests/support/non_finite.h"
#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

struct NonFiniteThere : OnSecondDevice {};

TEST_F(NonFiniteThere, StepsStopBeforeAnythingChanges) {
  for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
    ExplosiveTraining training({.average = WeightAverageOptions{.decay = 0.9}, .mode = mode},
                               second);
    expect_stops(training);
  }
}

TEST_F(NonFiniteThere, StepsOfSeveralBatchesStop) {
  for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
    ExplosiveTraining training({.accumulate = 2, .clip_norm = 1, .mode = mode}, second);
    expect_stops(training, 2);
  }
}

TEST_F(NonFiniteThere, StepsAreSkippedWhenAsked) {
  for (const StepMode mode : {StepMode::eager, StepMode::graph}) {
    ExplosiveTraining training({.epochs = 4, .non_finite = NonFinite::skip, .mode = mode}, second);
    for (const EpochReport& report : training.fit(true)) {
      EXPECT_EQ(report.skipped_steps, 1);
      EXPECT_TRUE(std::isfinite(report.train_loss));
    }
    const auto odd = size_t(training.odd_batch);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(training.before[i] == training.before[i + 1], i == odd) << i;
    }
  }
}

}  // namespace
}  // namespace adret
