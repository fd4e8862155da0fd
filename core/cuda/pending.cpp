// Kernels that are declared and not yet there.
#include <adret/core/error.h>
#include <adret/core/cuda/kernels.h>

namespace adret::cuda {

void run(Context&, const kernels::RecurrentForward&) { throw Error("pending"); }
void run(Context&, const kernels::RecurrentBackward&) { throw Error("pending"); }

}  // namespace adret::cuda
