// Kernels that are on their way; each leaves as it arrives.
#include <adret/core/cpu/kernels.h>
#include <adret/core/error.h>

namespace adret::cpu {

void run(const kernels::Remap&) { throw Error("Remap is not there yet"); }
void run(const kernels::RemapBackward&) { throw Error("RemapBackward is not there yet"); }
void run(const kernels::Sort&) { throw Error("Sort is not there yet"); }

}  // namespace adret::cpu
