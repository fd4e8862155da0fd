// Multi-head attention with PyTorch's weights gives PyTorch's results. make_attention.py made them.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/layers/attention.h>
#include <adret/train/weights.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

std::map<std::string, Tensor> golden(const std::string& name) {
  std::map<std::string, Tensor> tensors;
  const auto path = source_dir() / "tests/golden" / (name + ".safetensors");
  for (const auto& [key, tensor] : read_tensors(path).tensors) tensors[key] = tensor;
  return tensors;
}

void expect_as(const Tensor& actual, const Tensor& expected, const char* what) {
  const auto values = [](const Tensor& x) { return x.detach().to(DType::f64).to_vector<double>(); };
  ASSERT_EQ(actual.shape(), expected.shape());
  expect_close(values(actual), values(expected), {.relative = 1e-5, .absolute = 1e-6}, what);
}

TEST(MultiheadAttention, WithPyTorchsWeightsGivesPyTorchsResults) {
  MultiheadAttention layer(8, 2);
  load_weights(layer, source_dir() / "tests/golden/attention.safetensors");
  std::map<std::string, Tensor> io = golden("attention_io");
  expect_as(layer(io["query"], io["key"], io["value"]), io["cross"], "cross");
  expect_as(layer(io["key"], AttentionOptions{.causal = true}), io["self"], "self");
}

TEST(MultiheadAttention, OfThreeEqualTensorsIsSelfAttention) {
  MultiheadAttention layer(8, 4);
  const Tensor x = golden("attention_io")["key"];
  const Tensor one = layer(x), three = layer(x, x, x);
  expect_as(three, one, "forward");
  const Tensor of_one = grad({sum(one * one)}, {layer.in_proj_weight})[0];
  expect_as(grad({sum(three * three)}, {layer.in_proj_weight})[0], of_one, "gradient");
}

TEST(MultiheadAttention, DropsWeightsInTrainingAlone) {
  MultiheadAttention layer(8, 2, {.bias = false, .dropout = 0.5});
  const Tensor x = golden("attention_io")["key"];
  EXPECT_NE(layer(x).to_vector<float>(), layer(x).to_vector<float>());
  layer.eval();
  EXPECT_EQ(layer(x).to_vector<float>(), layer(x).to_vector<float>());
  EXPECT_FALSE(Tensor(layer.in_proj_bias).defined());
}

TEST(MultiheadAttention, RefusesSizesThatDoNotFit) {
  expect_error<Error>([] { return MultiheadAttention(8, 3); },
                      "[MultiheadAttention] heads are 3; they must divide embed_dim 8");
  expect_error<Error>([] { return MultiheadAttention(8, 2, {.dropout = 2}); },
                      "[MultiheadAttention] dropout is 2; it must be a probability in 0..1");
  MultiheadAttention layer(8, 2);
  expect_error<ShapeError>(
      [&] {
        return layer(Tensor::ones({2, 3, 4}));
      },
      "[MultiheadAttention] x is (2, 3, 4), wanted (N, tokens, 8)");
}

}  // namespace
}  // namespace adret
