// Lines that a warp puts in order by itself.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/index.h>

namespace adret::cuda {

// Whether the call's lines are short enough, of a dtype of at most 32 bits.
bool can_sort_lines(const kernels::Sort& call);
void sort_lines(const Context& context, const kernels::Sort& call);

}  // namespace adret::cuda
