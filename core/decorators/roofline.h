// How far below a device's two ceilings kernels ran (Williams, Waterman and Patterson 2009).
#pragma once

#include <adret/core/decorators/profile.h>

#include <map>

namespace adret {

// What a device can do at most, as given or measured.
struct Ceilings {
  double bytes_per_second = 0;  // of its memory, read and written together
  std::map<Arithmetic, double> flops_per_second;
};

// Of a profile's row. Operands that come from a cache may put the share of the memory's ceiling
// above 1 and the time lost below 0.
struct Roofline {
  double of_arithmetic = 0, of_memory = 0;  // shares of the ceilings
  double least_seconds = 0;  // at the nearer ceiling, for the kernels as they are: fused, they need
                             // less
  double lost_seconds = 0;   // the time beyond that
};

// Throws Error when the ceiling of what the row computes in, or of the memory, is not positive.
Roofline roofline(const ProfileRow& row, const Ceilings& ceilings);

}  // namespace adret
