// What a thread's random numbers depend on: how many keys a step has drawn, which a replayed step
// has to count, too, and all of it, for what draws the same numbers again.
#pragma once

#include <adret/core/random.h>

#include <array>
#include <cstdint>

namespace adret::random {

// Keys of this thread since the step began, of the streams that count within a step.
struct StepCalls {
  uint32_t augment = 0, dropout = 0;
  bool operator==(const StepCalls&) const = default;
};
StepCalls step_calls();
void set_step_calls(const StepCalls& calls);

struct State {
  uint64_t seed = 0;
  int64_t step = 0;
  std::array<uint32_t, 5> calls{};  // keys drawn of each stream
};
State state();
void set_state(const State& state);

}  // namespace adret::random
