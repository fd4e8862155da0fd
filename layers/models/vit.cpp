// Vision transformers.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <adret/layers/models/vit.h>
#include <fmt/core.h>

namespace adret {
namespace {

int64_t patches_of(const VitOptions& options) {
  const int64_t side = at_least(1, options.image, "Vit", "image");
  if (side % at_least(1, options.patch, "Vit", "patch") != 0) {
    throw Error(fmt::format("[Vit] patches of {} do not tile an image of {}", options.patch, side));
  }
  return (side / options.patch) * (side / options.patch);
}

void start(Linear& layer) {
  init::trunc_normal_(layer.weight.value, {.std = 0.02});
  init::zeros_(layer.bias.value);
}

Sequential make_blocks(const VitOptions& options) {
  Sequential blocks;
  for (int64_t i = 0; i < at_least(1, options.depth, "Vit", "depth"); ++i) {
    TransformerBlock& block = blocks.append(TransformerBlock({.features = options.features,
                                                              .heads = options.heads,
                                                              .dropout = options.dropout,
                                                              .epsilon = 1e-6}));
    for (Linear* layer : {&block.attn.qkv, &block.attn.proj, &block.mlp.fc1, &block.mlp.fc2}) {
      start(*layer);
    }
  }
  return blocks;
}

Vit make(VitOptions options, int64_t features, int64_t heads) {
  options.features = features;
  options.heads = heads;
  return Vit(options);
}

}  // namespace

Vit::PatchProjection::PatchProjection(const VitOptions& options)
    : options(options),
      weight(parameter("weight",
                       Tensor::empty({options.features, options.patch, options.patch,
                                      at_least(1, options.channels, "Vit", "channels")}),
                       FileLayout::conv_weight)),
      bias(parameter("bias", Tensor::empty({options.features}))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor Vit::PatchProjection::forward(const Tensor& x) {
  check::rank("Vit", {"x", x}, 4, "(N, H, W, C)");
  const int64_t n = x.size(0), size = options.image, patch = options.patch, side = size / patch;
  if (x.size(1) != size || x.size(2) != size || x.size(3) != options.channels) {
    check::refuse("Vit", fmt::format("x {} holds images of {}x{} in {} channels, the model takes "
                                     "{}x{} in {}; resize them, or choose .image and .channels",
                                     to_string(x.shape()), x.size(1), x.size(2), x.size(3), size,
                                     size, options.channels));
  }
  const int64_t length = patch * patch * options.channels;
  const Tensor rows =
      permute(x.reshape({n, side, patch, side, patch * options.channels}), {0, 1, 3, 2, 4})
          .reshape({n, side * side, length});
  return linear(in_dtype_of(weight, rows), weight.value.reshape({options.features, length}), bias);
}

Vit::Vit(const VitOptions& options)
    : options(options),
      cls_token(parameter("cls_token", Tensor::empty({1, 1, options.features}))),
      pos_embed(
          parameter("pos_embed", Tensor::empty({1, 1 + patches_of(options), options.features}))),
      patch_embed(add("patch_embed", PatchEmbed(options))),
      blocks(add("blocks", make_blocks(options))),
      norm(add("norm", LayerNorm(options.features, {.epsilon = 1e-6}))),
      head(add("head", Linear(options.features, options.classes))) {
  init::normal_(cls_token.value, 0, 1e-6);
  init::trunc_normal_(pos_embed.value, {.std = 0.02});
  init::zeros_(head.weight.value);
  init::zeros_(head.bias.value);
}

Tensor Vit::forward(const Tensor& x) {
  const Tensor patches = patch_embed(x);
  const Tensor cls = broadcast_to(cls_token, {x.size(0), 1, options.features});
  const Tensor tokens = concatenate({cls, patches}, 1) + pos_embed;
  const Tensor h = blocks(dropout(tokens, options.dropout, training()));
  // Every token is normalised by itself, so the others' norms are not needed.
  return head(norm(slice(h, 1, 0, 1)).reshape({x.size(0), options.features}));
}

Vit vit_tiny(VitOptions options) { return make(options, 192, 3); }
Vit vit_small(VitOptions options) { return make(options, 384, 6); }
Vit vit_base(VitOptions options) { return make(options, 768, 12); }

}  // namespace adret
