// The blocks of "Attention is all you need" (Vaswani et al. 2017), named as PyTorch's.
#pragma once

#include <adret/layers/attention.h>
#include <adret/layers/dropout.h>
#include <adret/layers/group_norm.h>

namespace adret {

struct TransformerLayerOptions {
  int64_t feedforward = 2048;  // features between the two linear layers
  double dropout = 0.1;        // of attention weights, and of what is added to the residual
  Activation activation = Activation::relu;
  bool norm_first = false;  // before attention and the linear layers instead of behind the sums
  double epsilon = 1e-5;    // of the norms
};

// Self-attention and two linear layers, each added to its input: (N, T, features) -> the same.
class TransformerEncoderLayer : public Layer<TransformerEncoderLayer> {
 public:
  // Throws Error for sizes below 1 and heads that do not divide the features.
  TransformerEncoderLayer(int64_t features, int64_t heads,
                          const TransformerLayerOptions& options = {});
  Tensor forward(const Tensor& x, const AttentionMask& mask = {});
  using Layer::operator();
  Tensor operator()(const Tensor& x, const AttentionMask& mask) {
    return Layer::operator()(x, mask);
  }
  TransformerEncoderLayer rebuild() const {
    return TransformerEncoderLayer(self_attn.features, self_attn.heads, options);
  }

  const TransformerLayerOptions options;
  MultiheadAttention& self_attn;
  Linear& linear1;
  Linear& linear2;
  LayerNorm& norm1;
  LayerNorm& norm2;
  Dropout& dropout;  // behind the activation
  Dropout& dropout1;
  Dropout& dropout2;
};

// Self-attention, attention to an encoder's result, and two linear layers, each added to its input:
// (N, T, features), memory (N, S, features) -> (N, T, features).
class TransformerDecoderLayer : public Layer<TransformerDecoderLayer> {
 public:
  // Throws Error for sizes below 1 and heads that do not divide the features.
  TransformerDecoderLayer(int64_t features, int64_t heads,
                          const TransformerLayerOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& memory, const AttentionMask& mask = {},
                 const AttentionMask& memory_mask = {});
  using Layer::operator();
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMask& mask,
                    const AttentionMask& memory_mask = {}) {
    return Layer::operator()(x, memory, mask, memory_mask);
  }
  TransformerDecoderLayer rebuild() const {
    return TransformerDecoderLayer(self_attn.features, self_attn.heads, options);
  }

  const TransformerLayerOptions options;
  MultiheadAttention& self_attn;
  MultiheadAttention& multihead_attn;
  Linear& linear1;
  Linear& linear2;
  LayerNorm& norm1;
  LayerNorm& norm2;
  LayerNorm& norm3;
  Dropout& dropout;  // behind the activation
  Dropout& dropout1;
  Dropout& dropout2;
  Dropout& dropout3;
};

}  // namespace adret
