// How many keys a step has drawn: what a replayed step has to count, too.
#pragma once

#include <adret/core/random.h>

#include <cstdint>

namespace adret::random {

// Keys of this thread since the step began, of the streams that count within a step.
struct StepCalls {
  uint32_t augment = 0, dropout = 0;
  bool operator==(const StepCalls&) const = default;
};
StepCalls step_calls();
void set_step_calls(const StepCalls& calls);

}  // namespace adret::random
