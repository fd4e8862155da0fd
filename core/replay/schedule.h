// Which calls of a list may run beside others.
#pragma once

#include <adret/core/kernels/kernel.h>

#include <cstddef>
#include <span>
#include <vector>

namespace adret {

// Note [Lanes]
// Of a backward pass only the gradients of activations wait for each other. Those of weights are
// needed at its end, so they go into lane 1 and fill what lane 0 leaves idle: all of a small
// network's launches, and the last wave of a large one's kernels. So do copies of results, and of
// all inputs but the largest. The calls of a lane follow each other.
struct Scheduled {
  int lane = 0;
  std::vector<size_t> after;  // calls of the other lane, each of them before this one in the list
};

// Whether a call is one for lane 1. One of its kind may be in lane 0 as well: what its kernels
// count in device memory must be apart for each lane.
bool runs_beside(const Kernel& call);

// The lanes are given; what is worked out is which calls must wait for which of the other lane, as
// one writes memory that the other touches.
std::vector<Scheduled> schedule(std::span<const Kernel* const> calls, std::span<const int> lanes);

}  // namespace adret
