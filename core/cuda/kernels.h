// Every kernel's implementation on CUDA, one overload each; the files beside this one
// follow the families of core/kernels.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/kernel.h>

namespace adret::cuda {

void run(Context&, const kernels::Fill&);
void run(Context&, const kernels::Copy&);
void run(Context&, const kernels::Cast&);
void run(Context&, const kernels::Unary&);
void run(Context&, const kernels::UnaryBackward&);
void run(Context&, const kernels::Binary&);
void run(Context&, const kernels::Broadcast&);
void run(Context&, const kernels::Reduce&);
void run(Context&, const kernels::ReduceBackward&);
void run(Context&, const kernels::Matmul&);
void run(Context&, const kernels::LinearForward&);
void run(Context&, const kernels::LinearBackwardInput&);
void run(Context&, const kernels::LinearBackwardWeight&);
void run(Context&, const kernels::Conv2dForward&);
void run(Context&, const kernels::Conv2dBackwardInput&);
void run(Context&, const kernels::Conv2dBackwardWeight&);
void run(Context&, const kernels::MaxPool2dForward&);
void run(Context&, const kernels::MaxPool2dBackward&);
void run(Context&, const kernels::MaxPool2dGather&);
void run(Context&, const kernels::AvgPool2dForward&);
void run(Context&, const kernels::AvgPool2dBackward&);
void run(Context&, const kernels::ResampleForward&);
void run(Context&, const kernels::ResampleBackward&);
void run(Context&, const kernels::BatchNormForward&);
void run(Context&, const kernels::BatchNormInference&);
void run(Context&, const kernels::BatchNormBackward&);
void run(Context&, const kernels::SoftmaxForward&);
void run(Context&, const kernels::SoftmaxBackward&);
void run(Context&, const kernels::CrossEntropyForward&);
void run(Context&, const kernels::CrossEntropyBackward&);
void run(Context&, const kernels::PairLossForward&);
void run(Context&, const kernels::PairLossBackward&);
void run(Context&, const kernels::Permute&);
void run(Context&, const kernels::CopyRuns&);
void run(Context&, const kernels::Gather&);
void run(Context&, const kernels::RandomUniform&);
void run(Context&, const kernels::RandomNormal&);
void run(Context&, const kernels::DropoutForward&);
void run(Context&, const kernels::DropoutBackward&);
void run(Context&, const kernels::SgdStep&);
void run(Context&, const kernels::AdamStep&);
void run(Context&, const kernels::GradientNorm&);
void run(Context&, const kernels::ClipByNorm&);
void run(Context&, const kernels::ClipByValue&);
void run(Context&, const kernels::UpdateLossScale&);
void run(Context&, const kernels::AverageWeights&);
void run(Context&, const kernels::RmsStep&);
void run(Context&, const kernels::LionStep&);
void run(Context&, const kernels::LambStep&);
void run(Context&, const kernels::MuonDirection&);
void run(Context&, const kernels::MuonStep&);
void run(Context&, const kernels::AugmentImages&);
void run(Context&, const kernels::ResampleImages&);
void run(Context&, const kernels::Arange&);
void run(Context&, const kernels::Select&);
void run(Context&, const kernels::Extreme&);
void run(Context&, const kernels::Remap&);
void run(Context&, const kernels::RemapBackward&);
void run(Context&, const kernels::Scatter&);
void run(Context&, const kernels::Sort&);
void run(Context&, const kernels::GroupNormForward&);
void run(Context&, const kernels::GroupNormBackward&);
void run(Context&, const kernels::AttentionForward&);
void run(Context&, const kernels::AttentionBackward&);
void run(Context&, const kernels::RecurrentForward&);
void run(Context&, const kernels::RecurrentBackward&);
void run(Context&, const kernels::Custom&);

}  // namespace adret::cuda
