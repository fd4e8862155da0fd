// The closed list of all kernels, and what can be asked of any call: the waist of the library.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/kernels/attention.h>
#include <adret/core/kernels/conv.h>
#include <adret/core/kernels/custom.h>
#include <adret/core/kernels/elementwise.h>
#include <adret/core/kernels/group_norm.h>
#include <adret/core/kernels/image.h>
#include <adret/core/kernels/index.h>
#include <adret/core/kernels/loss.h>
#include <adret/core/kernels/matmul.h>
#include <adret/core/kernels/muon.h>
#include <adret/core/kernels/norm.h>
#include <adret/core/kernels/optimizer.h>
#include <adret/core/kernels/optimizer_adaptive.h>
#include <adret/core/kernels/pair_loss.h>
#include <adret/core/kernels/pool.h>
#include <adret/core/kernels/random.h>
#include <adret/core/kernels/recurrent.h>
#include <adret/core/kernels/reduce.h>
#include <adret/core/kernels/resample.h>
#include <adret/core/kernels/softmax.h>

#include <string>
#include <variant>
#include <vector>

namespace adret {

namespace kernels {
using AnyKernel = std::variant<
    Fill, Copy, Cast, Unary, UnaryBackward, Binary, Broadcast, Reduce, Matmul, LinearForward,
    LinearBackwardInput, LinearBackwardWeight, Conv2dForward, Conv2dBackwardInput,
    Conv2dBackwardWeight, MaxPool2dForward, MaxPool2dBackward, MaxPool2dGather, AvgPool2dForward,
    AvgPool2dBackward, ResampleForward, ResampleBackward, BatchNormForward, BatchNormInference,
    BatchNormBackward, SoftmaxForward, SoftmaxBackward, CrossEntropyForward, CrossEntropyBackward,
    PairLossForward, PairLossBackward, Permute, CopyRuns, Gather, RandomUniform, RandomNormal,
    DropoutForward, DropoutBackward, SgdStep, AdamStep, GradientNorm, ClipByNorm, ClipByValue,
    MuonDirection, MuonStep, AugmentImages, UpdateLossScale, AverageWeights, RmsStep, LionStep,
    LambStep, ResampleImages, Arange, Select, Extreme, Remap, RemapBackward, Scatter, Sort,
    GroupNormForward, GroupNormBackward, AttentionForward, AttentionBackward, RecurrentForward,
    RecurrentBackward, ReduceBackward, Custom>;
}  // namespace kernels

// One call as a value: a member of the list with its operands and parameters.
struct Kernel : kernels::AnyKernel {
  using kernels::AnyKernel::variant;
  const kernels::AnyKernel& any() const { return *this; }
};

// Runs a kernel: run(Copy{.x = a, .y = b}). Operands are checked and outputs allocated before.
template <class K>
void run(const K& kernel) {
  dispatch(Kernel(std::in_place_type<K>, kernel));
}

const char* kernel_name(const Kernel& kernel);
std::vector<kernels::Operand> inputs(const Kernel& kernel);
std::vector<kernels::Operand> outputs(const Kernel& kernel);
double flops(const Kernel& kernel);
// What must be read and written at least: the bytes of all operands.
double bytes_moved(const Kernel& kernel);
// The device that the operands share.
Device device_of(const Kernel& kernel);
// "conv2d_forward x=(64, 28, 28, 1) f32 cpu ... stride 1x1 ..."
std::string to_string(const Kernel& kernel);

}  // namespace adret
