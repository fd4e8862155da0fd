// The two ways to run batch normalisation in training, and the choice between them.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/norm.h>

namespace adret::cuda {

// Any call: sums in a first launch, and what follows from them in a second (for few rows in the
// first, too).
void run_in_two_launches(Context& context, const kernels::BatchNormForward& call);
void run_in_two_launches(Context& context, const kernels::BatchNormBackward& call);

// Note [Batch normalisation in one launch]. False where that cannot be done, and then nothing is.
bool run_in_one_launch(Context& context, const kernels::BatchNormForward& call);
bool run_in_one_launch(Context& context, const kernels::BatchNormBackward& call);

// Whether a launch that keeps `kept` tensors of x's size on the chip, and reads `beside` more past
// it, is faster than two: those it keeps must hardly be more than the shared memory of the device,
// and the others take loads that the two would have more of in flight (bench_cuda_norm).
inline bool one_launch_pays(const Context& context, const TensorView& x, int kept, int beside) {
  const int64_t bytes = x.numel() * int64_t(size_of(x.dtype)) * (kept + 3 * beside);
  const int64_t shared =
      context.multiprocessors() * int64_t(context.properties.sharedMemPerBlockOptin);
  return bytes <= shared + shared / 4;
}
inline bool one_launch_pays(const Context& context, const kernels::BatchNormForward& call) {
  return one_launch_pays(context, call.x, 1, call.residual.defined());
}
inline bool one_launch_pays(const Context& context, const kernels::BatchNormBackward& call) {
  return one_launch_pays(context, call.x, 2, call.y.defined() + call.dy_added.defined());
}

}  // namespace adret::cuda
