// Pooling, activations and softmax through cuDNN's own functions for them.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/elementwise.h>
#include <adret/core/kernels/pool.h>
#include <adret/core/kernels/softmax.h>

namespace adret::cuda {

// Whether cuDNN computes the same: its sizes are 32 bits; its max pooling tells no positions, so
// that it serves only where no gradient is wanted; its windows end inside the padded image.
bool cudnn_can(const kernels::Unary& call);  // relu, sigmoid and tanh
bool cudnn_can(const kernels::UnaryBackward& call);
bool cudnn_can(const kernels::MaxPool2dForward& call);
bool cudnn_can(const kernels::AvgPool2dForward& call);
bool cudnn_can(const kernels::AvgPool2dBackward& call);
bool cudnn_can(const kernels::SoftmaxForward& call);
bool cudnn_can(const kernels::SoftmaxBackward& call);

// Only what cudnn_can. Throws DeviceError with cuDNN's own words.
void run_cudnn(Context& context, const kernels::Unary& call);
void run_cudnn(Context& context, const kernels::UnaryBackward& call);
void run_cudnn(Context& context, const kernels::MaxPool2dForward& call);
void run_cudnn(Context& context, const kernels::AvgPool2dForward& call);
void run_cudnn(Context& context, const kernels::AvgPool2dBackward& call);
void run_cudnn(Context& context, const kernels::SoftmaxForward& call);
void run_cudnn(Context& context, const kernels::SoftmaxBackward& call);

}  // namespace adret::cuda
