// Kernels that are declared and not yet there.
#include <adret/core/error.h>
#include <adret/core/cpu/kernels.h>

namespace adret::cpu {

void run(const kernels::RecurrentForward&) { throw Error("pending"); }
void run(const kernels::RecurrentBackward&) { throw Error("pending"); }

}  // namespace adret::cpu
