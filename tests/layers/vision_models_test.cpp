// Models of images: logits, gradients, copies, modes, precision and what they refuse. Their names
// and sizes are checked against PyTorch's in tests/golden.
#include <adret/autograd/ops/loss.h>
#include <adret/layers/models/densenet.h>
#include <adret/layers/models/mobilenet_v2.h>
#include <adret/layers/models/resnet.h>
#include <adret/layers/models/tiny_resnet.h>
#include <adret/layers/models/vgg.h>
#include <adret/layers/models/wide_resnet.h>
#include <adret/layers/summary.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/hashed.h"

namespace adret {
namespace {

using namespace test;

void expect_gradients_everywhere(Module& model, const Tensor& x) {
  cross_entropy(model.call(x), Tensor::from(std::vector<int64_t>{3, 4}, {2})).backward();
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_TRUE(parameter->value.grad().defined()) << name;
  }
}

// Evaluation takes the running statistics, which a batch in training has moved.
template <class Model>
void expect_equal_copy(Model& model, const Tensor& x) {
  Model copy = model.clone();
  EXPECT_EQ(summary(copy, x.shape()), summary(model, x.shape()));
  model.eval();
  copy.eval();
  const auto y = model(x).to_vector();
  EXPECT_EQ(copy(x).to_vector(), y);
  EXPECT_EQ(model(x).to_vector(), y);
}

void expect_norms_stay_in_f32(Module& model) {
  model.to(DType::bf16);
  for (const auto& [name, module] : model.named_modules()) {
    if (const auto* conv = dynamic_cast<Conv2d*>(module)) {
      EXPECT_EQ(conv->weight.value.dtype(), DType::bf16) << name;
    }
    if (const auto* norm = dynamic_cast<BatchNorm2d*>(module)) {
      EXPECT_EQ(norm->weight.value.dtype(), DType::f32) << name;
      EXPECT_EQ(norm->running_var.dtype(), DType::f32) << name;
    }
  }
}

template <class Model>
void expect_trains(Model model, int64_t size) {
  SCOPED_TRACE(summarize(model, {2, size, size, 3})[0].type);
  const Tensor x = hashed_images("images", 2, size).to(DType::f32);
  EXPECT_EQ(model(x).shape(), (Shape{2, 10}));
  expect_gradients_everywhere(model, x);
  expect_equal_copy(model, x);
  expect_norms_stay_in_f32(model);
}

TEST(VisionModels, TrainAndCanBeCopiedAndConverted) {
  expect_trains(ResNet({.blocks = {1, 2, 1, 1}}), 16);
  expect_trains(ResNet({.blocks = {1, 1, 1, 1}}, {.stem = Stem::imagenet}), 64);
  expect_trains(ResNet({.blocks = {1, 2, 1, 1}, .bottleneck = true}), 16);
  expect_trains(Vgg({1, 1, 1, 1, 1}), 32);
  expect_trains(Vgg({1, 1, 1, 1, 1}, {.batch_norm = true}), 64);
  expect_trains(WideResNet({.depth = 10, .width = 2, .dropout = 0.3}), 16);
  expect_trains(TinyResNet(), 32);
  expect_trains(DenseNet({1, 2, 1, 1}, {.growth = 8, .channels = 16, .dropout = 0.2}), 16);
  expect_trains(DenseNet({1, 1, 2, 1}, {.growth = 8, .channels = 16, .stem = Stem::imagenet}), 64);
  expect_trains(MobileNetV2({.width = 0.5}), 32);
  expect_trains(MobileNetV2({.width = 0.35, .stem = Stem::imagenet}), 64);
}

// By hand: 9 weights a pair of channels, two values a channel and norm, 128 * 10 + 10 in fc.
TEST(VisionModels, OfTheTinyResNetIsAsSmallAsItSays) {
  TinyResNet model;
  const auto rows = summarize(model, {1, 32, 32, 3});
  const int64_t pairs = 3 * 16 + 16 * 32 + 2 * 32 * 32 + 32 * 64 + 64 * 128 + 2 * 128 * 128;
  const int64_t norms = 16 + 3 * 32 + 64 + 3 * 128;
  EXPECT_EQ(rows[0].parameters, 9 * pairs + 2 * norms + 1290);
}

TEST(VisionModels, TakeImagesOfOtherSizesAndClasses) {
  ResNet resnet({.blocks = {1, 1, 1, 1}}, {.classes = 100});
  resnet.eval();
  EXPECT_EQ(resnet(Tensor::zeros({1, 24, 40, 3})).shape(), (Shape{1, 100}));
  DenseNet densenet({1, 1, 1, 1}, {.classes = 9, .growth = 4, .channels = 8});
  densenet.eval();
  EXPECT_EQ(densenet(Tensor::zeros({1, 24, 44, 3})).shape(), (Shape{1, 9}));
  Vgg vgg({1, 1, 1, 1, 1}, {.classes = 7});
  vgg.eval();
  EXPECT_EQ(vgg(Tensor::zeros({1, 64, 32, 3})).shape(), (Shape{1, 7}));
}

// Within five standard errors of a normal's deviation.
void expect_deviation(const std::string& name, const Tensor& weight, double expected) {
  double squares = 0;
  for (const float value : weight.to_vector()) squares += double(value) * value;
  const auto count = double(weight.numel());
  EXPECT_NEAR(std::sqrt(squares / count), expected, 5 * expected / std::sqrt(2 * count)) << name;
}

// Normal, of variance 2 / fan (He et al. 2015).
void expect_kaiming_convolutions(Module& model, init::FanMode fan) {
  int found = 0;
  for (const auto& [name, module] : model.named_modules()) {
    const auto* const conv = dynamic_cast<const Conv2d*>(module);
    if (!conv) continue;
    ++found;
    const Shape& shape = conv->weight.value.shape();  // (O, KH, KW, I / groups)
    const int64_t channels = fan == init::FanMode::in ? shape[3] : shape[0];
    expect_deviation(name, conv->weight.value,
                     std::sqrt(2 / double(channels * shape[1] * shape[2])));
  }
  EXPECT_GT(found, 0);
}

TEST(VisionModels, StartAsTorchvisions) {
  DenseNet densenet({1, 1, 1, 1}, {.growth = 8, .channels = 24});
  expect_kaiming_convolutions(densenet, init::FanMode::in);
  ResNet resnet({.blocks = {1, 1, 1, 1}});
  expect_kaiming_convolutions(resnet, init::FanMode::out);
  MobileNetV2 mobilenet;
  expect_kaiming_convolutions(mobilenet, init::FanMode::out);
  int linears = 0;
  for (const auto& [name, module] : mobilenet.named_modules()) {
    const auto* const linear = dynamic_cast<const Linear*>(module);
    if (!linear) continue;
    ++linears;
    expect_deviation(name, linear->weight.value, 0.01);
    for (const float bias : linear->bias.value.to_vector()) EXPECT_EQ(bias, 0) << name;
  }
  EXPECT_EQ(linears, 1);
}

TEST(VisionModels, RefuseWhatTheirPapersDoNotHave) {
  expect_error<Error>([] { return WideResNet({.depth = 18}); },
                      "[WideResNet] depth is 18; it must be 6 n + 4: 10, 16, 22, 28, ...");
  expect_error<Error>([] { return WideResNet({.depth = 16, .width = 0}); },
                      "[WideResNet] width is 0");
  expect_error<Error>([] { return MobileNetV2({.width = 0}); },
                      "[MobileNetV2] width is 0; the multiplier must be positive");
  expect_error<Error>(
      [] {
        return ResNet({.blocks = {2, 2, 0, 2}});
      },
      "[ResNet] blocks of a layer is 0");
  expect_error<Error>([] { return DenseNet({2, 2, 0, 2}); }, "[DenseNet] layers of a block is 0");
  expect_error<Error>(
      [] {
        return DenseNet({1, 1, 1, 1}, {.growth = 0});
      },
      "[DenseNet] growth is 0");
  expect_error<Error>([] { return DenseLayer(8, {.bn_size = 0}); }, "[DenseLayer] bn_size is 0");
  expect_error<Error>([] { return Vgg({1, 0, 1, 1, 1}); }, "[Vgg] convolutions is 0");
}

}  // namespace
}  // namespace adret
