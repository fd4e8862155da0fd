// The library's own layers are certified, on a second device too.
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/pointwise.h>
#include <adret/layers/activation.h>
#include <adret/layers/attention.h>
#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/embedding.h>
#include <adret/layers/flatten.h>
#include <adret/layers/group_norm.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/pool.h>
#include <adret/layers/recurrent.h>
#include <adret/layers/sequential.h>
#include <adret/layers/transformer.h>

#include "tests/certify/wrong_layers.h"

namespace adret {
namespace {

using namespace test;

// With the second device of this program: Note [Test devices].
CertifyOptions everywhere(CertifyOptions options = {}) {
  options = quick(options);
  options.device = "cuda";
  return options;
}

template <class L>
void expect_certified(L&& layer, const std::vector<Shape>& shapes,
                      const CertifyOptions& options = {}) {
  const SecondDevice second;
  const MirrorPause on_the_cpu;
  const Certificate c = certify(layer, shapes, everywhere(options));
  EXPECT_TRUE(c.passed()) << c;
  EXPECT_EQ(c.row("devices: cuda:0 f32").verdict, Verdict::passed) << c;
}

TEST(LibraryLayers, Linear) { expect_certified(Linear(5, 3), {{4, 5}}); }
TEST(LibraryLayers, Conv2d) {
  expect_certified(Conv2d(2, 3, {.kernel = 3, .padding = 1}), {{2, 4, 4, 2}});
}
TEST(LibraryLayers, BatchNorm2d) {
  // It refuses a batch of none in training.
  expect_certified(BatchNorm2d(3), {{2, 3, 3, 3}}, {.batches = {1, 3}});
}
TEST(LibraryLayers, LayerNorm) { expect_certified(LayerNorm({6}), {{4, 6}}); }
TEST(LibraryLayers, GroupNorm) { expect_certified(GroupNorm(2, 4), {{2, 3, 3, 4}}); }
TEST(LibraryLayers, Dropout) { expect_certified(Dropout(0.3), {{4, 6}}); }
TEST(LibraryLayers, PReLU) { expect_certified(PReLU(3), {{4, 3}}); }
TEST(LibraryLayers, Lstm) { expect_certified(LSTM(3, 4), {{2, 3, 3}}); }
TEST(LibraryLayers, Gru) { expect_certified(GRU(3, 4, {.layers = 2}), {{2, 3, 3}}); }
TEST(LibraryLayers, Embedding) {
  const CertifyOptions indices{.inputs = {{.name = "indices", .below = 7}}};
  expect_certified(Embedding(7, 3), {{4, 5}}, indices);
}
TEST(LibraryLayers, SelfAttention) { expect_certified(MultiheadAttention(8, 2), {{2, 3, 8}}); }
TEST(LibraryLayers, Attention) {
  expect_certified(MultiheadAttention(4, 2), {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}},
                   {.inputs = {{.name = "query"}, {.name = "key"}, {.name = "value"}}});
}
TEST(LibraryLayers, TransformerEncoder) {
  expect_certified(TransformerEncoderLayer(4, 2, {.feedforward = 6}), {{2, 3, 4}});
}
TEST(LibraryLayers, Sequence) {
  expect_certified(Sequential(Conv2d(1, 2, {.kernel = 3}), ReLU(), MaxPool2d(2), Flatten(),
                              Dropout(0.25), Linear(2 * 2 * 2, 3)),
                   {{2, 6, 6, 1}});
}

struct Swish {
  ADRET_FN auto operator()(auto x, auto beta) const { return x * sigmoid(beta * x); }
};
struct SwishLayer : Layer<SwishLayer> {
  explicit SwishLayer(int64_t channels) : beta(parameter("beta", Tensor::ones({channels}))) {}
  Tensor forward(const Tensor& x) { return pointwise(Swish{}, x, beta); }
  Parameter& beta;
};

TEST(LibraryLayers, AFormulaThatAFunctionMakes) {
  const Certificate c = certify(
      "swish", [] { return SwishLayer(3); }, {{4, 3}}, quick({.eager_step = true}));
  EXPECT_TRUE(c.passed()) << c;
  EXPECT_EQ(c.row("gradients").reason, "input 0, beta");
  EXPECT_EQ(c.row("devices").verdict, Verdict::skipped);
}

TEST(LibraryFunctions, CrossEntropy) {
  const Certificate c = certify(
      "cross_entropy",
      [](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); },
      {{4, 3}, {4}},
      quick({.inputs = {{.name = "logits"}, {.name = "labels", .below = 3}}, .f32_outputs = true}));
  EXPECT_TRUE(c.passed()) << c;
  EXPECT_EQ(c.row("samples apart").reason, "no output has a batch dimension");
}

}  // namespace
}  // namespace adret
