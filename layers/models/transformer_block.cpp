// The block that language and vision models stack.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/models/transformer_block.h>
#include <fmt/core.h>

namespace adret {
namespace {

int64_t features_of(const TransformerBlockOptions& options) {
  const int64_t features = at_least(1, options.features, "TransformerBlock", "features");
  if (features % at_least(1, options.heads, "TransformerBlock", "heads") != 0) {
    throw Error(fmt::format("[TransformerBlock] {} heads do not divide {} features", options.heads,
                            features));
  }
  return features;
}

int64_t hidden_of(const TransformerBlockOptions& options) {
  return options.hidden == 0 ? 4 * features_of(options)
                             : at_least(1, options.hidden, "TransformerBlock", "hidden");
}

}  // namespace

TransformerBlock::Attention::Attention(const TransformerBlockOptions& options)
    : options(options),
      qkv(add(options.names.qkv, Linear(features_of(options), 3 * options.features))),
      proj(add(options.names.proj, Linear(options.features, options.features))) {}

Tensor TransformerBlock::Attention::forward(const Tensor& x) {
  return proj(
      self_attention(qkv(x), options.heads,
                     {.causal = options.causal, .dropout = training() ? options.dropout : 0}));
}

TransformerBlock::Mlp::Mlp(const TransformerBlockOptions& options)
    : options(options),
      fc1(add(options.names.fc1, Linear(features_of(options), hidden_of(options),
                                        {.activation = options.activation}))),
      fc2(add(options.names.fc2, Linear(hidden_of(options), options.features))) {}

TransformerBlock::TransformerBlock(const TransformerBlockOptions& options)
    : options(options),
      norm1(
          add(options.names.norm1, LayerNorm(features_of(options), {.epsilon = options.epsilon}))),
      attn(add("attn", Attention(options))),
      norm2(add(options.names.norm2, LayerNorm(options.features, {.epsilon = options.epsilon}))),
      mlp(add("mlp", Mlp(options))) {}

Tensor TransformerBlock::forward(const Tensor& x) {
  const auto dropped = [&](const Tensor& h) { return dropout(h, options.dropout, training()); };
  const Tensor h = x + dropped(attn(norm1(x)));
  return h + dropped(mlp(norm2(h)));
}

}  // namespace adret
