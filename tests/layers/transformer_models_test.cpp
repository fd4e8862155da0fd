// Transformers and DenseNet: where they drop values in training, and how their weights start. What
// they compute is checked against PyTorch's in tests/golden.
#include <adret/autograd/ops/create.h>
#include <adret/layers/embedding.h>
#include <adret/layers/models/densenet.h>
#include <adret/layers/models/gpt2.h>
#include <adret/layers/models/vit.h>
#include <adret/layers/transformer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <variant>

#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;

// Dropped tensors and, in attention, dropped weights.
struct Drops {
  int tensors = 0, weights = 0;
  bool operator==(const Drops&) const = default;
};

// Of one call; all with the probability.
template <class F>
Drops drops_of(const F& call, double probability) {
  SeenKernels seen;
  call();
  Drops drops;
  for (const Kernel& kernel : seen.calls) {
    if (const auto* dropout = std::get_if<kernels::DropoutForward>(&kernel.any())) {
      EXPECT_EQ(dropout->p, probability);
      ++drops.tensors;
    }
    const auto* attention = std::get_if<kernels::AttentionForward>(&kernel.any());
    if (attention && attention->attention.dropout > 0) {
      EXPECT_EQ(attention->attention.dropout, probability);
      ++drops.weights;
    }
  }
  return drops;
}

template <class F>
void expect_drops(Module& model, double probability, const F& call, const Drops& expected) {
  EXPECT_EQ(drops_of(call, probability), expected) << model.type_name();
  model.eval();
  EXPECT_EQ(drops_of(call, probability), Drops()) << model.type_name();
}

// The embedded tokens, and in each block the attention's weights and what both branches add.
TEST(Dropout, IsThereInEachPartOfTheModelsInTrainingAlone) {
  Gpt2 gpt2(
      {.vocabulary = 5, .context = 3, .features = 4, .heads = 2, .depth = 2, .dropout = 0.25});
  const Tensor tokens = Tensor::from<int32_t>({0, 4, 2}, {1, 3});
  expect_drops(gpt2, 0.25, [&] { return gpt2(tokens); }, {.tensors = 5, .weights = 2});

  Vit vit({.image = 4,
           .patch = 2,
           .features = 4,
           .heads = 2,
           .depth = 3,
           .classes = 2,
           .dropout = 0.5});
  const Tensor image = Tensor::ones({1, 4, 4, 3});
  expect_drops(vit, 0.5, [&] { return vit(image); }, {.tensors = 7, .weights = 3});

  DenseNet densenet({1, 2, 1, 1}, {.growth = 4, .channels = 8, .dropout = 0.125});
  const Tensor images = Tensor::ones({2, 8, 8, 3});
  expect_drops(densenet, 0.125, [&] { return densenet(images); }, {.tensors = 5});
}

// And behind the activation between the linear layers.
TEST(Dropout, IsThereInEachPartOfTransformerLayersInTrainingAlone) {
  const TransformerLayerOptions options{.feedforward = 6, .dropout = 0.25};
  const Tensor x = Tensor::ones({1, 3, 4});
  TransformerEncoderLayer encoder(4, 2, options);
  expect_drops(encoder, 0.25, [&] { return encoder(x); }, {.tensors = 3, .weights = 1});
  TransformerDecoderLayer decoder(4, 2, options);
  expect_drops(decoder, 0.25, [&] { return decoder(x, x); }, {.tensors = 4, .weights = 2});
}

// Within five standard errors of a normal's deviation.
void expect_deviation(const Parameter& parameter, double expected) {
  double squares = 0;
  for (const float value : parameter.value.to_vector()) squares += double(value) * value;
  const auto count = double(parameter.value.numel());
  EXPECT_NEAR(std::sqrt(squares / count), expected, 5 * expected / std::sqrt(2 * count))
      << parameter.name;
}

void expect_zeros(const Parameter& parameter) {
  for (const float value : parameter.value.to_vector()) EXPECT_EQ(value, 0) << parameter.name;
}

// Radford et al. 2019: what is added to the residual starts smaller with the depth.
TEST(Gpt2, StartsAsPublished) {
  const Gpt2 model({.vocabulary = 200, .context = 100, .features = 40, .heads = 2, .depth = 8});
  expect_deviation(model.wte.weight, 0.02);
  expect_deviation(model.wpe.weight, 0.01);
  for (const auto& child : model.h.children()) {
    const auto& block = dynamic_cast<const TransformerBlock&>(*child);
    expect_deviation(block.attn.qkv.weight, 0.02);
    expect_deviation(block.attn.proj.weight, 0.005);
    expect_deviation(block.mlp.fc1.weight, 0.02);
    expect_deviation(block.mlp.fc2.weight, 0.005);
    for (const Linear* layer :
         {&block.attn.qkv, &block.attn.proj, &block.mlp.fc1, &block.mlp.fc2}) {
      expect_zeros(layer->bias);
    }
  }
}

TEST(Vit, StartsAsTimms) {
  const Vit model({.image = 64, .patch = 4, .features = 32, .heads = 2, .depth = 2, .classes = 3});
  expect_deviation(model.cls_token, 1e-6);
  expect_deviation(model.pos_embed, 0.02);
  for (const auto& child : model.blocks.children()) {
    const auto& block = dynamic_cast<const TransformerBlock&>(*child);
    for (const Linear* layer :
         {&block.attn.qkv, &block.attn.proj, &block.mlp.fc1, &block.mlp.fc2}) {
      expect_deviation(layer->weight, 0.02);
      expect_zeros(layer->bias);
    }
  }
  expect_zeros(model.head.weight);
  expect_zeros(model.head.bias);
}

// Uniform within sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
TEST(MultiheadAttention, StartsAsPyTorchs) {
  const MultiheadAttention layer(48, 2);
  const double bound = std::sqrt(6.0 / (48 + 3 * 48));
  expect_deviation(layer.in_proj_weight, bound / std::sqrt(3));
  for (const float value : layer.in_proj_weight.value.to_vector()) {
    EXPECT_LE(std::abs(value), float(bound));
  }
  expect_zeros(layer.in_proj_bias);
  expect_zeros(layer.out_proj.bias);
}

TEST(Embedding, APaddingRowStartsAtZero) {
  const auto values = Embedding(3, 2, {.padding_idx = -2}).weight.value.to_vector();
  EXPECT_EQ(values[2], 0);
  EXPECT_EQ(values[3], 0);
  for (const size_t place : {0, 1, 4, 5}) EXPECT_NE(values[place], 0) << place;
}

}  // namespace
}  // namespace adret
