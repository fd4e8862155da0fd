// Multi-head attention (Vaswani et al. 2017).
#pragma once

#include <adret/autograd/ops/attention.h>
#include <adret/layers/linear.h>
#include <adret/layers/module.h>

namespace adret {

struct MultiheadAttentionOptions {
  bool bias = true;    // of all four projections
  double dropout = 0;  // of the attention weights, in training
};

// Projects queries, keys and values (N, tokens, embed_dim), attends with `heads` heads of embed_dim
// / heads features each, and projects the result (N, T, embed_dim). The parameters have PyTorch's
// names and start as PyTorch's: in_proj_weight (3 embed_dim, embed_dim) and in_proj_bias of
// queries, keys and values in this order, and the layer out_proj. Of `options` the mask, lengths,
// causal and scale are as in scaled_dot_product_attention; the dropout is the layer's.
class MultiheadAttention : public Layer<MultiheadAttention> {
 public:
  // Throws Error for sizes below 1, for heads that do not divide embed_dim, and for a dropout
  // outside 0..1.
  MultiheadAttention(int64_t embed_dim, int64_t heads,
                     const MultiheadAttentionOptions& options = {});
  // Self-attention: x is queries, keys and values, by one product.
  Tensor forward(const Tensor& x, const AttentionOptions& options = {});
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionOptions& options = {});
  MultiheadAttention rebuild() const { return MultiheadAttention(embed_dim, heads, options); }

  const int64_t embed_dim, heads;
  const MultiheadAttentionOptions options;
  Parameter& in_proj_weight;
  Parameter& in_proj_bias;
  Linear& out_proj;

 private:
  // Part 0, 1 or 2 of the projection: (N, tokens, heads, features).
  Tensor projected(const Tensor& x, int part);
  AttentionOptions with_dropout(AttentionOptions options) const;
};

}  // namespace adret
