// What the loss functions share: checks of labels and pairs, and the reduction.
#pragma once

#include <adret/autograd/ops/check.h>
#include <adret/core/kernels/loss.h>
#include <adret/core/kernels/pair_loss.h>

#include <optional>

namespace adret::loss {

// Floating, alike, and of one shape: nothing is broadcast.
void check_pair(const char* function, check::Argument a, check::Argument b);

// scores (..., C) and labels (...) i32 or i64. Those on the CPU are looked at: Error names the
// sample of one outside 0..C-1 that is not ignore_index. On another device nobody waits for them;
// the function gives NaN there.
void check_labels(const char* function, check::Argument scores, const Tensor& labels,
                  std::optional<int64_t> ignore_index);

// (C), of the losses' dtype, without a gradient, or undefined.
void check_class_weights(const char* function, check::Argument scores, const Tensor& weights);

// The losses themselves, their sum or their mean.
Tensor reduced(const Tensor& losses, kernels::Reduction reduction);

// The losses of x and target, which are a pair, in one kernel; `params.divisor` of 1 or what else
// the losses are divided by. Can be differentiated again.
Tensor of_pair(const char* function, const Tensor& x, const Tensor& target,
               kernels::PairLossParams params, kernels::Reduction reduction);

}  // namespace adret::loss
