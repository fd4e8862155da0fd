// The block that language and vision models stack: norms first, one product for queries, keys and
// values.
#pragma once

#include <adret/layers/attention.h>
#include <adret/layers/dropout.h>
#include <adret/layers/group_norm.h>

namespace adret {

// What a model's files call the parts.
struct BlockNames {
  const char *norm1 = "norm1", *qkv = "qkv", *proj = "proj";
  const char *norm2 = "norm2", *fc1 = "fc1", *fc2 = "fc2";
};

struct TransformerBlockOptions {
  int64_t features = 0, heads = 1;  // features must be given
  int64_t hidden = 0;               // between the two linear layers; 0: four times the features
  Activation activation = Activation::gelu;
  bool causal = false;
  double dropout = 0;  // of attention weights, and of what is added to the residual
  double epsilon = 1e-5;
  BlockNames names = {};
};

// x + attn(norm1(x)), then x + mlp(norm2(x)): (N, T, features) -> the same.
class TransformerBlock : public Layer<TransformerBlock> {
 public:
  struct Attention : Layer<Attention> {
    explicit Attention(const TransformerBlockOptions& options);
    Tensor forward(const Tensor& x);
    Attention rebuild() const { return Attention(options); }

    const TransformerBlockOptions options;
    Linear& qkv;
    Linear& proj;
  };
  struct Mlp : Layer<Mlp> {
    explicit Mlp(const TransformerBlockOptions& options);
    Tensor forward(const Tensor& x) { return fc2(fc1(x)); }
    Mlp rebuild() const { return Mlp(options); }

    const TransformerBlockOptions options;
    Linear& fc1;
    Linear& fc2;
  };

  // Throws Error for sizes below 1 and heads that do not divide the features.
  explicit TransformerBlock(const TransformerBlockOptions& options);
  Tensor forward(const Tensor& x);
  TransformerBlock rebuild() const { return TransformerBlock(options); }

  const TransformerBlockOptions options;
  LayerNorm& norm1;
  Attention& attn;
  LayerNorm& norm2;
  Mlp& mlp;
};

}  // namespace adret
