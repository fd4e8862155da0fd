// Transformers with PyTorch's weights give PyTorch's results and gradients. make_transformers.py
// made the file.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/models/gpt2.h>
#include <adret/layers/models/vit.h>
#include <adret/layers/transformer.h>
#include <adret/train/weights.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/close.h"
#include "tests/support/files.h"
#include "tests/support/golden.h"
#include "tests/support/gradients.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

const std::map<std::string, Tensor>& tensors() {
  static const auto all = read_golden("transformers.safetensors");
  return all;
}

// What the file holds for one model.
struct Golden {
  std::string name;

  const Tensor& at(const std::string& key) const { return tensors().at(name + "." + key); }
  // Gives the model PyTorch's state, by a file that holds no more.
  void load(Module& model) const {
    const std::string prefix = name + ".weight.";
    std::vector<NamedTensor> state;
    for (const auto& [key, tensor] : tensors()) {
      if (key.starts_with(prefix)) state.push_back({key.substr(prefix.size()), tensor});
    }
    const TempDir folder;
    write_tensors(folder / "weights", state, {});
    load_weights(model, folder / "weights");
    model.eval();
  }
  void expect_result(const Tensor& y) const {
    expect_close(y.to(DType::f64).to_vector<double>(), values("y"),
                 {.relative = 1e-4, .absolute = 2e-5}, name);
  }
  // Of sum(y * weights) to `x`.
  void expect_gradient(const Tensor& y, const Tensor& x) const {
    const Tensor weights = sequence(y.shape(), 3).to(DType::f32);
    const Tensor dx = grad({sum(y * weights)}, {x})[0];
    expect_close(dx.to(DType::f64).to_vector<double>(), values("dx"),
                 {.relative = 1e-3, .absolute = 2e-4}, name + " gradient");
  }

 private:
  std::vector<double> values(const std::string& key) const {
    return at(key).to(DType::f64).to_vector<double>();
  }
};

Tensor variable_of(const Tensor& x) {
  Tensor copy = x.clone();
  copy.set_requires_grad(true);
  return copy;
}

TEST(Transformers, AttentionToAnotherSequence) {
  const Golden golden{"attention"};
  MultiheadAttention model(12, 3);
  golden.load(model);
  const Tensor x = variable_of(golden.at("x")), &memory = golden.at("memory");
  const Tensor y = model(x, memory, memory);
  golden.expect_result(y);
  golden.expect_gradient(y, x);
}

TEST(Transformers, AttentionWithinPaddedSequences) {
  const Golden golden{"padded"};
  MultiheadAttention model(12, 3);
  golden.load(model);
  const Tensor x = variable_of(golden.at("x"));
  const AttentionMask mask{.lengths = golden.at("lengths")};
  const Tensor y = model(x, mask);
  golden.expect_result(y);
  golden.expect_gradient(y, x);
  golden.expect_result(model(x, x, x, mask));
}

TEST(Transformers, EncoderLayers) {
  const TransformerLayerOptions behind{.feedforward = 20};
  const TransformerLayerOptions first{
      .feedforward = 20, .activation = Activation::gelu, .norm_first = true};
  for (const auto& [name, options] : {std::pair("encoder", behind), {"encoder_first", first}}) {
    const Golden golden{name};
    TransformerEncoderLayer model(12, 3, options);
    golden.load(model);
    const Tensor x = variable_of(golden.at("x"));
    const Tensor y = model(x, AttentionMask{.causal = true});
    golden.expect_result(y);
    golden.expect_gradient(y, x);
    golden.expect_result(model.clone()(x, AttentionMask{.causal = true}));
  }
}

TEST(Transformers, DecoderLayers) {
  for (const bool norm_first : {false, true}) {
    const Golden golden{norm_first ? "decoder_first" : "decoder"};
    TransformerDecoderLayer model(12, 3, {.feedforward = 20, .norm_first = norm_first});
    golden.load(model);
    const Tensor x = variable_of(golden.at("x"));
    const Tensor y = model(x, golden.at("memory"), AttentionMask{.causal = true});
    golden.expect_result(y);
    golden.expect_gradient(y, x);
  }
}

constexpr Gpt2Options small_gpt2{
    .vocabulary = 11, .context = 6, .features = 8, .heads = 2, .depth = 2};

TEST(Transformers, Gpt2) {
  const Golden golden{"gpt2"};
  Gpt2 model(small_gpt2);
  golden.load(model);
  golden.expect_result(model(golden.at("x")));
  golden.expect_result(model.clone()(golden.at("x").to(DType::i32)));
}

TEST(Transformers, Gpt2SeesNothingOfWhatComes) {
  Gpt2 model(small_gpt2);
  model.eval();
  const Tensor tokens = Tensor::from(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {1, 6});
  const Tensor changed = Tensor::from(std::vector<int64_t>{1, 2, 3, 4, 9, 10}, {1, 6});
  const Tensor first = slice(model(tokens), 1, 0, 4), second = slice(model(changed), 1, 0, 4);
  EXPECT_EQ(first.to_vector(), second.to_vector());
  EXPECT_THROW(model(Tensor::zeros({1, 7}, {.dtype = DType::i64})), ShapeError);
}

TEST(Transformers, Gpt2sFilesHoldItsWeightsAsPublished) {
  const TempDir folder;
  Gpt2 model(small_gpt2);
  Golden{"gpt2"}.load(model);
  save_weights(model, folder / "again");
  size_t count = 0;
  for (const auto& [name, tensor] : read_tensors(folder / "again").tensors) {
    const Tensor& before = tensors().at("gpt2.weight." + name);
    EXPECT_EQ(tensor.shape(), before.shape()) << name;
    EXPECT_EQ(tensor.to_vector(), before.to_vector()) << name;
    ++count;
  }
  EXPECT_EQ(count, model.named_parameters().size());
}

TEST(Transformers, Vit) {
  const Golden golden{"vit"};
  Vit model({.image = 8, .patch = 4, .features = 6, .heads = 2, .depth = 2, .classes = 3});
  golden.load(model);
  const Tensor x = variable_of(golden.at("x"));
  const Tensor y = model(permute(x, {0, 2, 3, 1}));
  golden.expect_result(y);
  golden.expect_gradient(y, x);
}

TEST(Transformers, HaveThePapersNumbersOfParameters) {
  const auto count = [](Module& model) {
    int64_t numbers = 0;
    for (const auto& parameter : model.parameters()) numbers += parameter->value.numel();
    return numbers;
  };
  Gpt2 gpt2;
  EXPECT_EQ(count(gpt2), 124'439'808);  // as published
  Vit vit = vit_small();
  EXPECT_EQ(count(vit), 22'050'664);  // timm's vit_small_patch16_224
}

TEST(Transformers, RefuseWhatDoesNotFit) {
  EXPECT_THAT([] { MultiheadAttention(12, 5); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("[MultiheadAttention] 5 heads do not divide 12 features")));
  EXPECT_THAT([] { Vit({.image = 30}); }, testing::ThrowsMessage<Error>(testing::HasSubstr(
                                              "[Vit] patches of 16 do not tile an image of 30")));
  EXPECT_THAT([] { Embedding(4, 2, {.padding_idx = 4}); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr("[Embedding] padding_idx 4 is none of 4 rows")));
  MultiheadAttention attention(12, 3);
  EXPECT_THAT(
      [&] {
        attention(Tensor::zeros({2, 5, 6}));
      },
      testing::ThrowsMessage<ShapeError>(
          testing::HasSubstr("x (2, 5, 6) has 6 features, the layer 12")));
}

}  // namespace
}  // namespace adret
