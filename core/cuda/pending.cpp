// Kernels that are on their way; each leaves as it arrives.
#include <adret/core/cuda/kernels.h>
#include <adret/core/error.h>

namespace adret::cuda {

void run(Context&, const kernels::Remap&) { throw Error("Remap is not there yet"); }
void run(Context&, const kernels::RemapBackward&) { throw Error("RemapBackward is not there yet"); }
void run(Context&, const kernels::Sort&) { throw Error("Sort is not there yet"); }

}  // namespace adret::cuda
