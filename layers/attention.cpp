// Attention of several heads.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/layers/attention.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <fmt/core.h>

namespace adret {
namespace {

int64_t dividing(int64_t heads, int64_t features) {
  if (at_least(1, features, "MultiheadAttention", "features") %
          at_least(1, heads, "MultiheadAttention", "heads") !=
      0) {
    throw Error(
        fmt::format("[MultiheadAttention] {} heads do not divide {} features", heads, features));
  }
  return heads;
}

// (N, T, C) -> (N, T, heads, C / heads).
Tensor by_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads});
}

void check_operand(const char* name, const Tensor& x, int64_t features) {
  check::rank("MultiheadAttention", {name, x}, 3, "(N, T, features)");
  if (x.size(2) == features) return;
  check::refuse("MultiheadAttention", fmt::format("{} {} has {} features, the layer {}", name,
                                                  to_string(x.shape()), x.size(2), features));
}

}  // namespace

Tensor self_attention(const Tensor& qkv, int64_t heads, const AttentionOptions& options) {
  check::rank("self_attention", {"qkv", qkv}, 3, "(N, T, 3 C)");
  if (heads < 1 || qkv.size(2) % (3 * heads) != 0) {
    check::refuse("self_attention",
                  fmt::format("qkv {} is not three times {} heads", to_string(qkv.shape()), heads));
  }
  const int64_t n = qkv.size(0), t = qkv.size(1), features = qkv.size(2) / 3;
  const Tensor packed = qkv.reshape({n, t, 3, heads, features / heads});
  return scaled_dot_product_attention_packed(packed, options).reshape({n, t, features});
}

MultiheadAttention::MultiheadAttention(int64_t features, int64_t heads,
                                       const MultiheadAttentionOptions& options)
    : features(features),
      heads(dividing(heads, features)),
      options(options),
      in_proj_weight(parameter("in_proj_weight", Tensor::empty({3 * features, features}))),
      in_proj_bias(
          parameter("in_proj_bias", options.bias ? Tensor::zeros({3 * features}) : Tensor())),
      out_proj(add("out_proj", Linear(features, features, {.bias = options.bias}))) {
  probability(options.dropout, "MultiheadAttention", "dropout");
  init::xavier_uniform_(in_proj_weight.value);
  if (options.bias) init::zeros_(out_proj.bias.value);
}

AttentionOptions MultiheadAttention::attention_options(const AttentionMask& mask) const {
  return {.mask = mask.mask,
          .lengths = mask.lengths,
          .causal = mask.causal,
          .dropout = training() ? options.dropout : 0};
}

Tensor MultiheadAttention::forward(const Tensor& x, const AttentionMask& mask) {
  check_operand("x", x, features);
  const Tensor qkv = linear(in_dtype_of(in_proj_weight, x), in_proj_weight, in_proj_bias);
  return out_proj(self_attention(qkv, heads, attention_options(mask)));
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask) {
  const auto projected = [&](const char* name, const Tensor& x, int64_t part) {
    check_operand(name, x, features);
    const int64_t begin = part * features, end = begin + features;
    const Tensor& weight = in_proj_weight;
    const Tensor bias = options.bias ? slice(in_proj_bias, 0, begin, end) : Tensor();
    return by_heads(linear(in_dtype_of(weight, x), slice(weight, 0, begin, end), bias), heads);
  };
  const Tensor q = projected("query", query, 0);
  const Tensor y = scaled_dot_product_attention(
      q, projected("key", key, 1), projected("value", value, 2), attention_options(mask));
  return out_proj(y.reshape({query.size(0), query.size(1), features}));
}

}  // namespace adret
