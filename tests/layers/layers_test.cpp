// The layers: what their constructors refuse, what they compute beyond their functions, their
// modes.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/gradcheck.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/statistics.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/attention.h>
#include <adret/layers/conv.h>
#include <adret/layers/dropout.h>
#include <adret/layers/embedding.h>
#include <adret/layers/flatten.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/pool.h>
#include <adret/layers/resample.h>
#include <adret/layers/sequential.h>
#include <adret/layers/transformer.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<float>;

// n values that all differ, in -1..1.
Tensor ramp(const Shape& shape) {
  Values values(size_t(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 2 * float(i * 7 % values.size()) / float(values.size()) - 1;
  }
  return Tensor::from(values, shape);
}

// -- activations ---------------------------------------------------------------------------------

TEST(ActivationLayers, ComputeTheirFunctionsAndAreCloned) {
  const Tensor x = ramp({3, 4}) * 4;
  const auto expect = [&](auto layer, const Tensor& y) {
    EXPECT_EQ(layer(x).template to_vector<float>(), y.to_vector<float>());
    auto copy = layer.clone();
    EXPECT_EQ(copy(x).template to_vector<float>(), y.to_vector<float>());
  };
  expect(ReLU6(), relu6(x));
  expect(GELU(), gelu(x));
  expect(GELU(GeluForm::tanh), gelu_tanh(x));
  expect(SiLU(), silu(x));
  expect(Mish(), mish(x));
  expect(Softplus({.beta = 2}), softplus(x, {.beta = 2}));
  expect(ELU(0.5), elu(x, 0.5));
  expect(SELU(), selu(x));
  expect(LeakyReLU(0.2), leaky_relu(x, 0.2));
  expect(Hardswish(), hardswish(x));
  expect(Hardsigmoid(), hardsigmoid(x));
  expect(GLU(1), glu(x, 1));
  expect(PReLU(4, 0.5), leaky_relu(x, 0.5));
  expect(Identity(), x);
  expect(Hardtanh(-2, 0.5), hardtanh(x, -2, 0.5));
  expect(Softsign(), softsign(x));
  expect(LogSigmoid(), logsigmoid(x));
  expect(CELU(0.5), celu(x, 0.5));
  expect(Threshold(1, 2), threshold(x, 1, 2));
  expect(Hardshrink(1), hardshrink(x, 1));
  expect(Softshrink(1), softshrink(x, 1));
  expect(Tanhshrink(), tanhshrink(x));
  expect(Unflatten(-1, {2, 2}), x.reshape({3, 2, 2}));
  expect(Softmax(0), softmax(x, 0));
  expect(LogSoftmax(0), log_softmax(x, 0));
}

TEST(PReLU, LearnsASlopeForEachChannel) {
  PReLU layer(2);
  const Tensor x = Tensor::from<float>({-1, 2, -3, -4}, {2, 2});
  sum(layer(x)).backward();
  EXPECT_EQ(layer.weight.value.grad().to_vector<float>(), (Values{-4, -4}));
  expect_error<Error>([] { return PReLU(0); }, "[PReLU] channels is 0; it must be at least 1");
}

// -- convolution ---------------------------------------------------------------------------------

TEST(Conv2d, RefusesArgumentsThatCannotWork) {
  expect_error<Error>([] { return Conv2d(1, 1, {}); },
                      "[Conv2d] kernel is 0x0; it must be at least 1x1");
  expect_error<Error>([] { return Conv2d(1, 1, {.kernel = {3, 0}}); }, "[Conv2d] kernel is 3x0");
  expect_error<Error>([] { return Conv2d(4, 4, {.kernel = 0, .groups = 4}); },
                      "[Conv2d] kernel is 0x0");
  expect_error<Error>([] { return Conv2d(0, 1, {.kernel = 3}); },
                      "[Conv2d] in_channels is 0; it must be at least 1");
  expect_error<Error>([] { return Conv2d(1, -2, {.kernel = 3}); }, "[Conv2d] out_channels is -2");
  expect_error<Error>([] { return Conv2d(1, 1, {.kernel = 3, .stride = 0}); },
                      "[Conv2d] stride is 0x0");
  expect_error<Error>([] { return Conv2d(1, 1, {.kernel = 3, .padding = -1}); },
                      "[Conv2d] padding is -1x-1; it must be at least 0x0");
  expect_error<Error>([] { return Conv2d(1, 1, {.kernel = 3, .dilation = 0}); },
                      "[Conv2d] dilation is 0x0");
  expect_error<Error>([] { return Conv2d(4, 4, {.kernel = 3, .groups = 0}); },
                      "[Conv2d] groups is 0; it must be at least 1");
}

TEST(Layers, RefuseOptionsThatNoInputCouldUse) {
  expect_error<Error>([] { return Conv2d(1, 1, {.kernel = 3, .activation = Activation::gelu}); },
                      "[Conv2d] activation is gelu; it must be none or relu");
  expect_error<Error>(
      [] {
        return ConvTranspose2d(1, 1, {.kernel = 3, .stride = {2, 1}, .output_padding = {1, 1}});
      },
      "[ConvTranspose2d] output_padding is 1; it must be below the stride 1");
  expect_error<Error>([] { return ConvTranspose1d(1, 1, {.kernel = 3, .output_padding = 1}); },
                      "[ConvTranspose1d] output_padding is 1");
  expect_error<Error>([] { return Softplus({.beta = 0}); }, "[Softplus] beta is 0");
  expect_error<Error>([] { return Hardtanh(1, -1); },
                      "[Hardtanh] low is 1; it must be at most high, -1");
  expect_error<Error>([] { return CELU(0); }, "[CELU] alpha is 0; it must be above 0");
  expect_error<Error>([] { return Softshrink(-1); }, "[Softshrink] lambda is -1");
  expect_error<Error>([] { return Unflatten(0, {}); }, "[Unflatten] there are no sizes");
  expect_error<ShapeError>(
      [] {
        return Unflatten(1, {2, 2})(Tensor::ones({2, 5}));
      },
      "[Unflatten] dimension 1 of (2, 5) cannot be (2, 2)");
  expect_error<ShapeError>(
      [] {
        return Unflatten(2, {1})(Tensor::ones({2, 5}));
      },
      "[Unflatten] dimension 2 is out of range");
  expect_error<Error>([] { return Upsample({.align_corners = true}); },
                      "[Upsample] align_corners is of linear interpolation alone");
  Linear model(1, 1);
  expect_error<Error>([&] { Sgd(model, {.momentum = 0.9}); }, "[sgd] lr is nan");
}

// Braces say no type, so a call that takes any arguments would not take them.
TEST(Attention, TakesItsMaskInBraces) {
  MultiheadAttention attention(4, 2);
  TransformerEncoderLayer encoder(4, 2, {.feedforward = 8, .dropout = 0});
  const Tensor x = ramp({1, 3, 4});
  const AttentionMask causal{.causal = true};
  EXPECT_EQ(attention(x, {.causal = true}).to_vector(), attention(x, causal).to_vector());
  EXPECT_NE(attention(x, {.causal = true}).to_vector(), attention(x).to_vector());
  EXPECT_EQ(attention(x, x, x, {.causal = true}).to_vector(),
            attention(x, x, x, causal).to_vector());
  EXPECT_EQ(encoder(x, {.causal = true}).to_vector(), encoder(x, causal).to_vector());
}

TEST(Embedding, StartsNormalButForItsPadding) {
  random::manual_seed(1);
  const Embedding table(50, 40, {.padding_idx = -2});
  EXPECT_LT(std::abs(mean(table.weight.value).item()), 0.1);  // 4 of its deviations
  EXPECT_NEAR(stddev(table.weight.value).item(), std::sqrt(0.98), 0.07);
  EXPECT_EQ(slice(table.weight.value, 0, 48, 49).to_vector(), Values(40, 0));
  expect_error<Error>([] { return Embedding(0, 2); }, "[Embedding] count is 0");
  expect_error<Error>([] { return Embedding(2, 0); }, "[Embedding] features is 0");
  expect_error<Error>([] { return Embedding(3, 2, {.padding_idx = 3}); },
                      "[Embedding] padding_idx 3 is none of 3 rows");
}

TEST(TransformerDecoderLayer, IsClonedAndRefusesWhatDoesNotFit) {
  TransformerDecoderLayer decoder(4, 2, {.feedforward = 8, .dropout = 0});
  const Tensor x = ramp({1, 3, 4}), memory = ramp({1, 2, 4});
  EXPECT_EQ(decoder.clone()(x, memory).to_vector(), decoder(x, memory).to_vector());
  expect_error<Error>([] { return TransformerDecoderLayer(4, 3); }, "[MultiheadAttention]");
  expect_error<Error>([] { return TransformerDecoderLayer(4, 2, {.feedforward = 0}); },
                      "[TransformerLayer] feedforward is 0");
}

TEST(Conv2d, SaysWhichChannelsGroupsDoNotDivide) {
  expect_error<Error>([] { return Conv2d(30, 16, {.kernel = 3, .groups = 8}); },
                      "[Conv2d] in_channels is 30, which groups 8 does not divide");
  expect_error<Error>([] { return Conv2d(16, 30, {.kernel = 3, .groups = 8}); },
                      "[Conv2d] out_channels is 30, which groups 8 does not divide");
  Conv2d conv(32, 16, {.kernel = 3, .padding = 1, .groups = 8});
  EXPECT_EQ(conv.weight.value.shape(), (Shape{16, 3, 3, 4}));
  sum(conv(ramp({2, 5, 5, 32}))).backward();
  EXPECT_EQ(conv.weight.value.grad().shape(), (Shape{16, 3, 3, 4}));
  EXPECT_EQ(conv.bias.value.grad().to_vector(), Values(16, 50));  // 2 x 5 x 5 ones
}

TEST(Conv2d, PassesItsOptionsOn) {
  Conv2d conv(1, 2,
              {.kernel = {3, 2},
               .stride = {2, 1},
               .padding = {0, 1},
               .bias = false,
               .activation = Activation::relu});
  const Tensor y = conv(ramp({1, 9, 5, 1}));
  EXPECT_EQ(y.shape(), (Shape{1, 4, 6, 2}));
  const Values values = y.to_vector();
  EXPECT_GE(*std::ranges::min_element(values), 0);
  EXPECT_FALSE(conv.bias.value.defined());
}

TEST(Linear, RefusesEmptySizesAndNamesWrongInputs) {
  expect_error<Error>([] { return Linear(0, 2); },
                      "[Linear] in_features is 0; it must be at least 1");
  expect_error<Error>([] { return Linear(2, 0); }, "[Linear] out_features is 0");
}

TEST(Linear, CastsAFloatingInputToItsWeights) {
  Linear fc(3, 2);
  EXPECT_EQ(fc(Tensor::ones({1, 3}, {.dtype = DType::f64})).dtype(), DType::f32);
  fc.to(DType::f64);
  EXPECT_EQ(fc(Tensor::ones({1, 3})).dtype(), DType::f64);
}

TEST(Pool, RefusesArgumentsThatCannotWork) {
  expect_error<Error>([] { return MaxPool2d(0); }, "[MaxPool2d] kernel is 0x0");
  expect_error<Error>([] { return AvgPool2d(2, {.stride = -1}); }, "[AvgPool2d] stride is -1x-1");
  expect_error<Error>([] { return MaxPool2d(3, {.padding = 2}); },
                      "[MaxPool2d] padding is 2x2; it must be at most half the kernel 3x3");
}

TEST(Pool, LayersPassTheirOptionsOn) {
  const Tensor x = ramp({1, 6, 7, 2});
  EXPECT_EQ(MaxPool2d(1, {.stride = 2, .ceil_mode = true})(x).shape(), (Shape{1, 3, 4, 2}));
  EXPECT_EQ(AvgPool2d(2)(x).shape(), (Shape{1, 3, 3, 2}));
  EXPECT_EQ(GlobalAvgPool2d()(x).shape(), (Shape{1, 2}));
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  expect_error<Error>([] { return Dropout(1.5); },
                      "[Dropout] p is 1.5; a probability lies in 0..1");
  expect_error<Error>([] { return Dropout(-0.1); }, "[Dropout] p is -0.1");
  expect_error<Error>([] { return Dropout(std::nan("")); }, "[Dropout] p is nan");
}

TEST(Dropout, AllOrNothingAtTheEnds) {
  Tensor x = ramp({4, 5});
  x.set_requires_grad(true);
  const Tensor none = Dropout(1)(x);
  EXPECT_EQ(none.to_vector(), Values(20, 0));
  sum(none).backward();
  EXPECT_EQ(x.grad().to_vector(), Values(20, 0));
  EXPECT_EQ(Dropout(0)(x).to_vector(), x.to_vector());
}

TEST(Dropout, MasksFollowTheBatchAndTheGradientUsesTheForwardsMask) {
  Dropout dropout(0.5);
  for (const int64_t batch : {10, 64, 7}) {
    Tensor x = Tensor::ones({batch, 3});
    x.set_requires_grad(true);
    const Tensor y = dropout(x);
    sum(y).backward();
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(x.grad().to_vector(), y.to_vector());  // both are mask / (1 - p)
  }
}

TEST(Dropout, IsTheIdentityInEvaluation) {
  Sequential net(Linear(4, 8), Dropout(0.5), Linear(8, 2));
  const Tensor x = ramp({3, 4});
  EXPECT_NE(net(x).to_vector(), net(x).to_vector());  // in training each call draws anew
  net.eval();
  const Values first = net(x).to_vector();
  EXPECT_EQ(net(x).to_vector(), first);
}

// torch 1.13:
//   m = torch.nn.BatchNorm2d(2, momentum=0.25, eps=1e-3)
//   with torch.no_grad(): m.weight[:] = torch.tensor([2., -1.]); m.bias[:] = torch.tensor([.5, 0.])
//   x = (torch.arange(12.) ** 2 / 10).reshape(1, 2, 3, 2).permute(0, 3, 1, 2)  # (N, H, W, C) in
//   memory m(x).permute(0, 2, 3, 1).flatten(); m.running_mean; m.running_var; m.eval(); m(x)...
TEST(BatchNorm2d, MatchesPyTorchInBothModes) {
  BatchNorm2d norm(2, {.momentum = 0.25, .epsilon = 1e-3});
  {
    const NoGrad no_grad;
    norm.weight.value.span<float>()[0] = 2;
    norm.weight.value.span<float>()[1] = -1;
    norm.bias.value.span<float>()[0] = 0.5;
  }
  Values squares(12);
  for (size_t i = 0; i < 12; ++i) squares[i] = float(i * i) / 10;
  const Tensor x = Tensor::from(squares, {1, 2, 3, 2});
  const auto expect_near = [](const Tensor& got, const Values& wanted) {
    const Values values = got.to_vector();
    ASSERT_EQ(values.size(), wanted.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 2e-6) << i;
  };
  expect_near(norm(x), {-1.5607691, 1.1062132, -1.3359579, 0.91657662, -0.66152436, 0.53730357,
                        0.46253142, -0.031606019, 2.0362098, -0.79015219, 4.0595102, -1.7383349});
  expect_near(norm.running_mean, {0.91666669, 1.1916667});
  expect_near(norm.running_var, {4.5486665, 6.0886669});
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
  norm.eval();
  expect_near(norm(x), {-0.35951144, 0.44237781, 0.015548103, 0.11819258, 1.1407267, -0.53017789,
                        3.0160244, -1.5027336, 5.6414413, -2.7994747, 9.0169773, -4.4204006});
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
}

TEST(BatchNorm2d, AddsAResidualAndActivatesLikeTheFunctionsAfterIt) {
  BatchNorm2d fused(2, {.activation = Activation::relu}), plain(2);
  const Tensor x = ramp({2, 2, 3, 2}), residual = ramp({2, 2, 3, 2}) - 1;
  for (const bool training : {true, false}) {
    fused.train(training);
    plain.train(training);
    EXPECT_LT(max(abs(fused(x) - relu(plain(x)))).item<float>(), 1e-6);
    EXPECT_LT(max(abs(fused(x, residual) - relu(plain(x) + residual))).item<float>(), 1e-6);
  }
}

TEST(BatchNorm2d, NamesItsStateLikePyTorch) {
  const BatchNorm2d norm(3);
  std::vector<std::string> names;
  for (const auto& entry : norm.named_parameters()) names.push_back(entry.name);
  for (const auto& entry : norm.named_buffers()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var",
                                             "num_batches_tracked"}));
}

TEST(BatchNorm2d, RefusesASingleValuePerChannelInTraining) {
  Sequential net;
  BatchNorm2d& norm = net.append("norm", BatchNorm2d(3));
  expect_error<ShapeError>(
      [&] {
        return net(ramp({1, 1, 1, 3}));
      },
      "more than one value per channel");
  expect_error<ShapeError>([&] { return net(ramp({1, 1, 1, 3})); }, "(in Sequential/norm)");
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 0);
  EXPECT_EQ(net(ramp({1, 2, 1, 3})).shape(), (Shape{1, 2, 1, 3}));
  net.eval();
  EXPECT_EQ(net(ramp({1, 1, 1, 3})).shape(), (Shape{1, 1, 1, 3}));
}

TEST(BatchNorm2d, RefusesWrongShapesAndOptions) {
  BatchNorm2d norm(3);
  expect_error<ShapeError>(
      [&] {
        return norm(ramp({2, 4, 4, 5}));
      },
      "[BatchNorm2d] wants images (N, H, W, 3), got (2, 4, 4, 5)");
  expect_error<ShapeError>([&] { return norm(ramp({4, 3})); }, "got (4, 3)");
  expect_error<Error>([] { return BatchNorm2d(0); }, "[BatchNorm2d] channels is 0");
  expect_error<Error>([] { return BatchNorm2d(1, {.momentum = 2}); },
                      "[BatchNorm2d] momentum is 2");
  expect_error<Error>([] { return BatchNorm2d(1, {.epsilon = -1}); },
                      "[BatchNorm2d] epsilon is -1");
}

TEST(BatchNorm2d, GradientIncludesTheTermsOfMeanAndVariance) {
  BatchNorm2d norm(2);
  norm.to(DType::f64);
  const Tensor x = ramp({3, 2, 2, 2}).to(DType::f64);
  const std::string wrong = gradcheck([&](const std::vector<Tensor>& in) { return norm(in[0]); },
                                      {Tensor(x.clone()).set_requires_grad(true)});
  EXPECT_EQ(wrong, "");
}

TEST(Sequential, NamesLayersByTheirPlace) {
  Sequential net(Flatten(), Linear(12, 5), ReLU(), Linear(5, 2));
  std::vector<std::string> names;
  for (const auto& entry : net.named_parameters()) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"1.weight", "1.bias", "3.weight", "3.bias"}));
  EXPECT_EQ(net(ramp({4, 2, 2, 3})).shape(), (Shape{4, 2}));
}

TEST(Sequential, GrowsAndNestsAndMoves) {
  Sequential body;
  Linear& fc = body.append("fc", Linear(2, 2));
  body.append(ReLU());
  Sequential net(std::move(body), Linear(2, 1));
  EXPECT_EQ(net.named_parameters()[0].name, "0.fc.weight");
  EXPECT_EQ(net.named_parameters()[0].parameter.get(), &fc.weight);
  expect_error<Error>([&] { return net.append("1", ReLU()).training(); },
                      "[Sequential] the name \"1\" is registered twice");
}

TEST(Sequential, ClonesItsLayers) {
  Sequential net(Conv2d(1, 2, {.kernel = 3, .activation = Activation::relu}), BatchNorm2d(2),
                 MaxPool2d(2), Flatten(), Linear(2 * 3 * 3, 4), Tanh(), Sigmoid(), GELU(),
                 LogSoftmax());
  const Tensor x = ramp({2, 8, 8, 1});
  net(x);  // moves the running statistics
  net.eval();
  Sequential copy = net.clone();
  EXPECT_EQ(copy(x).to_vector(), net(x).to_vector());
}

struct NoRebuild : Layer<NoRebuild> {
  Tensor forward(const Tensor& x) { return x; }
};

TEST(Sequential, SaysWhichLayerCannotBeCloned) {
  const Sequential net{ReLU(), NoRebuild()};
  expect_error<Error>([&] { return net.clone(); },
                      "[clone] NoRebuild cannot be cloned: it needs `NoRebuild rebuild() const`");
}

}  // namespace
}  // namespace adret
