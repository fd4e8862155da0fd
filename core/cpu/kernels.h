// Every kernel's implementation on the CPU, one overload each; the .cpp files beside this one
// follow the families of core/kernels.
#pragma once

#include <adret/core/kernels/kernel.h>

namespace adret::cpu {

void run(const kernels::Fill&);
void run(const kernels::Copy&);
void run(const kernels::Cast&);
void run(const kernels::Unary&);
void run(const kernels::UnaryBackward&);
void run(const kernels::Binary&);
void run(const kernels::Broadcast&);
void run(const kernels::Reduce&);
void run(const kernels::ReduceBackward&);
void run(const kernels::Matmul&);
void run(const kernels::LinearForward&);
void run(const kernels::LinearBackwardInput&);
void run(const kernels::LinearBackwardWeight&);
void run(const kernels::Conv2dForward&);
void run(const kernels::Conv2dBackwardInput&);
void run(const kernels::Conv2dBackwardWeight&);
void run(const kernels::MaxPool2dForward&);
void run(const kernels::MaxPool2dBackward&);
void run(const kernels::MaxPool2dGather&);
void run(const kernels::AvgPool2dForward&);
void run(const kernels::AvgPool2dBackward&);
void run(const kernels::ResampleForward&);
void run(const kernels::ResampleBackward&);
void run(const kernels::BatchNormForward&);
void run(const kernels::BatchNormInference&);
void run(const kernels::BatchNormBackward&);
void run(const kernels::SoftmaxForward&);
void run(const kernels::SoftmaxBackward&);
void run(const kernels::CrossEntropyForward&);
void run(const kernels::CrossEntropyBackward&);
void run(const kernels::PairLossForward&);
void run(const kernels::PairLossBackward&);
void run(const kernels::Permute&);
void run(const kernels::CopyRuns&);
void run(const kernels::Gather&);
void run(const kernels::RandomUniform&);
void run(const kernels::RandomNormal&);
void run(const kernels::DropoutForward&);
void run(const kernels::DropoutBackward&);
void run(const kernels::SgdStep&);
void run(const kernels::AdamStep&);
void run(const kernels::GradientNorm&);
void run(const kernels::ClipByNorm&);
void run(const kernels::ClipByValue&);
void run(const kernels::UpdateLossScale&);
void run(const kernels::AverageWeights&);
void run(const kernels::RmsStep&);
void run(const kernels::LionStep&);
void run(const kernels::LambStep&);
void run(const kernels::MuonDirection&);
void run(const kernels::MuonStep&);
void run(const kernels::AugmentImages&);
void run(const kernels::ResampleImages&);
void run(const kernels::Arange&);
void run(const kernels::Select&);
void run(const kernels::Extreme&);
void run(const kernels::Remap&);
void run(const kernels::RemapBackward&);
void run(const kernels::Scatter&);
void run(const kernels::Sort&);
void run(const kernels::GroupNormForward&);
void run(const kernels::GroupNormBackward&);
void run(const kernels::AttentionForward&);
void run(const kernels::AttentionBackward&);
void run(const kernels::RecurrentForward&);
void run(const kernels::RecurrentBackward&);
void run(const kernels::Custom&);

}  // namespace adret::cpu
