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

// Whether what the sums are of is hardly more than the shared memory of the device: beyond that
// the rows that are read twice cost more than a second launch (bench_cuda_norm).
inline bool is_mostly_kept(const Context& context, const TensorView& x, int tensors) {
  const int64_t bytes = x.numel() * int64_t(size_of(x.dtype)) * tensors;
  const int64_t shared =
      context.multiprocessors() * int64_t(context.properties.sharedMemPerBlockOptin);
  return bytes <= shared + shared / 4;
}
inline bool one_launch_pays(const Context& context, const kernels::BatchNormForward& call) {
  return is_mostly_kept(context, call.x, call.residual.defined() ? 2 : 1);
}
inline bool one_launch_pays(const Context& context, const kernels::BatchNormBackward& call) {
  return is_mostly_kept(context, call.x, 2);
}

}  // namespace adret::cuda
