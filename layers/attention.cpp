// Multi-head attention: its projections around scaled dot-product attention.
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/layers/attention.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <fmt/core.h>

namespace adret {
namespace {

constexpr const char* layer_name = "MultiheadAttention";

int64_t heads_of(int64_t embed_dim, int64_t heads) {
  at_least(1, heads, layer_name, "heads");
  if (embed_dim % heads == 0) return heads;
  throw Error(fmt::format("[{}] heads are {}; they must divide embed_dim {}", layer_name, heads,
                          embed_dim));
}

MultiheadAttentionOptions checked(const MultiheadAttentionOptions& options) {
  if (options.dropout >= 0 && options.dropout <= 1) return options;
  throw Error(fmt::format("[{}] dropout is {}; it must be a probability in 0..1", layer_name,
                          options.dropout));
}

void check_tokens(const char* argument, const Tensor& x, int64_t embed_dim) {
  if (x.rank() == 3 && x.size(2) == embed_dim) return;
  throw ShapeError(fmt::format("[{}] {} is {}, wanted (N, tokens, {})", layer_name, argument,
                               to_string(x.shape()), embed_dim));
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t heads,
                                       const MultiheadAttentionOptions& options)
    : embed_dim(at_least(1, embed_dim, layer_name, "embed_dim")),
      heads(heads_of(embed_dim, heads)),
      options(checked(options)),
      in_proj_weight(parameter("in_proj_weight", Tensor::empty({3 * embed_dim, embed_dim}))),
      in_proj_bias(
          parameter("in_proj_bias", options.bias ? Tensor::zeros({3 * embed_dim}) : Tensor())),
      out_proj(add("out_proj", Linear(embed_dim, embed_dim, {.bias = options.bias}))) {
  init::xavier_uniform_(in_proj_weight);
  if (options.bias) init::zeros_(out_proj.bias);
}

Tensor MultiheadAttention::forward(const Tensor& x, const AttentionOptions& options) {
  check_tokens("x", x, embed_dim);
  const Tensor in = in_dtype_of(in_proj_weight, x);
  const Tensor qkv = linear(in, in_proj_weight, in_proj_bias)
                         .reshape({x.size(0), x.size(1), 3, heads, embed_dim / heads});
  const Tensor y = scaled_dot_product_attention_packed(qkv, with_dropout(options));
  return out_proj(y.reshape({x.size(0), x.size(1), embed_dim}));
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionOptions& options) {
  check_tokens("query", query, embed_dim);
  check_tokens("key", key, embed_dim);
  check_tokens("value", value, embed_dim);
  const Tensor y = scaled_dot_product_attention(projected(query, 0), projected(key, 1),
                                                projected(value, 2), with_dropout(options));
  return out_proj(y.reshape({query.size(0), query.size(1), embed_dim}));
}

Tensor MultiheadAttention::projected(const Tensor& x, int part) {
  const auto rows = [&](const Tensor& of) {
    return of.defined() ? slice(of, 0, part * embed_dim, (part + 1) * embed_dim) : of;
  };
  return linear(in_dtype_of(in_proj_weight, x), rows(in_proj_weight), rows(in_proj_bias))
      .reshape({x.size(0), x.size(1), heads, embed_dim / heads});
}

AttentionOptions MultiheadAttention::with_dropout(AttentionOptions options) const {
  options.dropout = training() ? this->options.dropout : 0;
  return options;
}

}  // namespace adret
