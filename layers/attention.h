// Attention of several heads, and what its layers share.
#pragma once

#include <adret/autograd/ops/attention.h>
#include <adret/layers/linear.h>

namespace adret {

// What a call of attention may leave out of sight; see AttentionOptions.
struct AttentionMask {
  Tensor mask = {}, lengths = {};
  bool causal = false;
};

// Self-attention of a product that holds queries, keys and values of all heads side by side:
// (N, T, 3 C) -> (N, T, C). Throws ShapeError unless the heads divide C.
Tensor self_attention(const Tensor& qkv, int64_t heads, const AttentionOptions& options = {});

struct MultiheadAttentionOptions {
  bool bias = true;
  double dropout = 0;  // of the weights, in training
};

// Projects query, key and value, attends with each head apart, and projects the result (Vaswani et
// al. 2017). Parameters are named and start as those of PyTorch's MultiheadAttention; batches come
// first: (N, T, features).
class MultiheadAttention : public Layer<MultiheadAttention> {
 public:
  // Throws Error for sizes below 1 and heads that do not divide the features.
  MultiheadAttention(int64_t features, int64_t heads,
                     const MultiheadAttentionOptions& options = {});
  // Self-attention: (N, T, features) -> (N, T, features).
  Tensor forward(const Tensor& x, const AttentionMask& mask = {});
  // query (N, T, features), key and value (N, S, features) -> (N, T, features).
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const AttentionMask& mask = {});
  using Layer::operator();
  Tensor operator()(const Tensor& x, const AttentionMask& mask) {
    return Layer::operator()(x, mask);
  }
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMask& mask) {
    return Layer::operator()(query, key, value, mask);
  }
  MultiheadAttention rebuild() const { return MultiheadAttention(features, heads, options); }

  const int64_t features, heads;
  const MultiheadAttentionOptions options;
  Parameter& in_proj_weight;  // (3 features, features): of query, key and value
  Parameter& in_proj_bias;
  Linear& out_proj;

 private:
  AttentionOptions attention_options(const AttentionMask& mask) const;
};

}  // namespace adret
