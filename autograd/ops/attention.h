// Scaled dot-product attention (Vaswani et al. 2017).
#pragma once

#include <adret/core/tensor.h>

#include <optional>

namespace adret {

struct AttentionOptions {
  // (T or 1, S), or (N or 1, H or 1, T or 1, S): boolean, false where a query does not see a key,
  // or of q's dtype, added to the scores. Finite values below -4096 count as that: weights are 0
  // there beside any other, and alike where a query has no other.
  Tensor mask = {};
  Tensor lengths = {};  // (N) i32 or i64: a sample's keys from there on are not seen
  bool causal = false;  // query i sees keys 0..i; wants T = S
  double dropout = 0;   // probability that a weight is 0, in training; others grow by 1 / (1 - p)
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(D) if not given
};

// dropout(softmax(scale * q k^T + mask)) v for each sample and head, the softmax over the keys that
// a query sees: q (N, T, H, D), k and v (N, S, H, D) -> (N, T, H, D). A query that sees no key
// gives 0. The weights (N, H, T, S) are never stored, unless the mask requires a gradient or a
// second derivative is asked for. Gradients lose digits where all scores of a query are beyond 1e4,
// as f32 has 1e-3 there. Throws ShapeError when shapes or dtypes do not agree, DeviceError for
// several devices.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});
// The same with q, k and v in one tensor, as a single product makes them: (N, T, 3, H, D) -> (N, T,
// H, D). Nothing is copied, and the gradient is one tensor, too.
Tensor scaled_dot_product_attention_packed(const Tensor& qkv, const AttentionOptions& options = {});

}  // namespace adret
