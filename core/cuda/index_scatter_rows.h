// Sums of the elements of short rows by indices of their own.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/index.h>

namespace adret::cuda {

// Whether the call's sums are along the last dimension, of rows short enough for shared memory,
// with an index an element, and enough rows to keep the device busy.
bool can_scatter_rows(const kernels::Scatter& call);
void scatter_rows(Context& context, const kernels::Scatter& call);

}  // namespace adret::cuda
