// Attention by our own kernels: on tensor cores, and in every dtype and width.
#pragma once

#include <adret/core/cuda/context.h>
#include <adret/core/kernels/attention.h>

namespace adret::cuda {

// By the best of ours. Throws ShapeError for heads wider than 256.
void attend(Context& context, const kernels::AttentionForward& call);
void attend(Context& context, const kernels::AttentionBackward& call);

// Runs the call unless it has to be left to others: in 16 bits from sm_80 on, heads of a multiple
// of 8 and at most 128, and every operand's address a multiple of 16 bytes.
bool attend_on_tensor_cores(const Context& context, const kernels::AttentionForward& call);
bool attend_on_tensor_cores(const Context& context, const kernels::AttentionBackward& call);

// The same for gradients of heads of 40 to 64 and at most 208 tokens, without dropout; called by
// it.
bool attend_to_short(const Context& context, const kernels::AttentionBackward& call);

// The same in f32 from sm_80 on, for heads of a multiple of 4 and at most 128, without dropout.
bool attend_in_f32(const Context& context, const kernels::AttentionForward& call);
bool attend_in_f32(const Context& context, const kernels::AttentionBackward& call);

// sum of dy y for each query of each head: (N, H, T) in the accumulator's type. The scores'
// gradients are the weights times what their own gradients are above it.
void attention_means(const Context& context, const kernels::AttentionBackward& call, void* means);

}  // namespace adret::cuda
