// Our own softmax kernels, beside those of cuDNN.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/softmax.h>

namespace adret::cuda {

// Any shape, dimension and floating dtype.
void softmax_forward_own(Context& context, const kernels::SoftmaxForward& call);
void softmax_backward_own(Context& context, const kernels::SoftmaxBackward& call);

}  // namespace adret::cuda
