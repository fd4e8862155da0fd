// Gathering and scattering by indices that were checked, with their derivatives.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// Where indices lead: along `dim` (0..rank-1) of a tensor, as in kernels::Gather. `function` names
// the node.
struct Places {
  const char* function;
  int dim;
  Tensor indices;
};

// x's elements at the places.
Tensor gather_places(const Tensor& x, const Places& places);
// Records that y, which has x's elements at the places, was made from x.
void record_gathered(const Tensor& y, const Tensor& x, const Places& places);
// y, whose memory is given, gets the sums of x's elements that go to its places, 0 where none goes.
Tensor sum_to_places(const Tensor& x, const Places& places, const Tensor& y);

}  // namespace adret
