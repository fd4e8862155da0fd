// The transformer's blocks.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/layers/check.h>
#include <adret/layers/transformer.h>

namespace adret {
namespace {

int64_t feedforward_of(const TransformerLayerOptions& options) {
  return at_least(1, options.feedforward, "TransformerLayer", "feedforward");
}

MultiheadAttention attention_of(int64_t features, int64_t heads,
                                const TransformerLayerOptions& options) {
  return MultiheadAttention(features, heads, {.dropout = options.dropout});
}

LayerNorm norm_of(int64_t features, const TransformerLayerOptions& options) {
  return LayerNorm(features, {.epsilon = options.epsilon});
}

// x + branch(x), with the norm before the branch or behind the sum.
template <class Branch>
Tensor with_residual(const Tensor& x, LayerNorm& norm, bool norm_first, const Branch& branch) {
  return norm_first ? x + branch(norm(x)) : norm(x + branch(x));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(int64_t features, int64_t heads,
                                                 const TransformerLayerOptions& options)
    : options(options),
      self_attn(add("self_attn", attention_of(features, heads, options))),
      linear1(add("linear1",
                  Linear(features, feedforward_of(options), {.activation = options.activation}))),
      linear2(add("linear2", Linear(options.feedforward, features))),
      norm1(add("norm1", norm_of(features, options))),
      norm2(add("norm2", norm_of(features, options))),
      dropout(add("dropout", Dropout(options.dropout))),
      dropout1(add("dropout1", Dropout(options.dropout))),
      dropout2(add("dropout2", Dropout(options.dropout))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const AttentionMask& mask) {
  const bool first = options.norm_first;
  const Tensor h = with_residual(x, norm1, first,
                                 [&](const Tensor& in) { return dropout1(self_attn(in, mask)); });
  return with_residual(h, norm2, first,
                       [&](const Tensor& in) { return dropout2(linear2(dropout(linear1(in)))); });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t features, int64_t heads,
                                                 const TransformerLayerOptions& options)
    : options(options),
      self_attn(add("self_attn", attention_of(features, heads, options))),
      multihead_attn(add("multihead_attn", attention_of(features, heads, options))),
      linear1(add("linear1",
                  Linear(features, feedforward_of(options), {.activation = options.activation}))),
      linear2(add("linear2", Linear(options.feedforward, features))),
      norm1(add("norm1", norm_of(features, options))),
      norm2(add("norm2", norm_of(features, options))),
      norm3(add("norm3", norm_of(features, options))),
      dropout(add("dropout", Dropout(options.dropout))),
      dropout1(add("dropout1", Dropout(options.dropout))),
      dropout2(add("dropout2", Dropout(options.dropout))),
      dropout3(add("dropout3", Dropout(options.dropout))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory,
                                        const AttentionMask& mask,
                                        const AttentionMask& memory_mask) {
  const bool first = options.norm_first;
  Tensor h = with_residual(x, norm1, first,
                           [&](const Tensor& in) { return dropout1(self_attn(in, mask)); });
  h = with_residual(h, norm2, first, [&](const Tensor& in) {
    return dropout2(multihead_attn(in, memory, memory, memory_mask));
  });
  return with_residual(h, norm3, first,
                       [&](const Tensor& in) { return dropout3(linear2(dropout(linear1(in)))); });
}

}  // namespace adret
