// GPT-2.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <adret/layers/models/gpt2.h>
#include <fmt/core.h>

#include <cmath>

namespace adret {
namespace {

constexpr BlockNames names{.norm1 = "ln_1",
                           .qkv = "c_attn",
                           .proj = "c_proj",
                           .norm2 = "ln_2",
                           .fc1 = "c_fc",
                           .fc2 = "c_proj"};

// Weights normal with this deviation, biases 0; the files have weights as (in, out).
void start(Linear& layer, double std) {
  init::normal_(layer.weight.value, 0, std);
  init::zeros_(layer.bias.value);
  layer.weight.layout = FileLayout::transposed;
}

Sequential make_blocks(const Gpt2Options& options) {
  Sequential blocks;
  const double std = 0.02, residual_std = std / std::sqrt(2.0 * double(options.depth));
  for (int64_t i = 0; i < at_least(1, options.depth, "Gpt2", "depth"); ++i) {
    TransformerBlock& block = blocks.append(TransformerBlock({.features = options.features,
                                                              .heads = options.heads,
                                                              .activation = Activation::gelu_tanh,
                                                              .causal = true,
                                                              .dropout = options.dropout,
                                                              .names = names}));
    start(block.attn.qkv, std);
    start(block.attn.proj, residual_std);
    start(block.mlp.fc1, std);
    start(block.mlp.fc2, residual_std);
  }
  return blocks;
}

}  // namespace

Gpt2::Gpt2(const Gpt2Options& options)
    : options(options),
      wte(add("wte", Embedding(options.vocabulary, options.features))),
      wpe(add("wpe", Embedding(options.context, options.features))),
      h(add("h", make_blocks(options))),
      ln_f(add("ln_f", LayerNorm(options.features))) {
  init::normal_(wte.weight.value, 0, 0.02);
  init::normal_(wpe.weight.value, 0, 0.01);
}

Tensor Gpt2::forward(const Tensor& tokens) {
  check::rank("Gpt2", {"tokens", tokens}, 2, "(N, T)");
  const int64_t length = tokens.size(1);
  if (length > options.context) {
    check::refuse("Gpt2", fmt::format("{} tokens, the context has {}", length, options.context));
  }
  const Tensor places = slice(wpe.weight, 0, 0, length);
  const Tensor x = dropout(wte(tokens) + places, options.dropout, training());
  return linear(ln_f(h(x)), wte.weight);
}

}  // namespace adret
