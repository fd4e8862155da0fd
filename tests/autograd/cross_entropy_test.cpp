// Loss functions: values and gradients of PyTorch, extreme logits, labels that count for nothing.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/error.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Values = std::vector<double>;

struct CrossEntropyCase {
  const char* name;
  CrossEntropyOptions options;
  Shape shape;
  Values loss, dlogits;
};

// Of sequence({3, 4}) and labels 2, 0, 3; values: PyTorch 1.13 in f64, the gradient of the sum.
std::vector<CrossEntropyCase> pytorch_cases() {
  const Tensor weights = Tensor::from({0.5, 2.0, 1.25, 3.0}, {4});
  const Tensor with_zero = Tensor::from({0.5, 2.0, 1.25, 0.0}, {4});
  return {
      {"mean",
       {},
       {},
       {1.851202693},
       {0.02130677848, 0.06771280198, -0.1181424937, 0.02912291323, -0.2775446369, 0.1772961106,
        0.02399441934, 0.07625410697, 0.2053004169, 0.02778439008, 0.08829860905, -0.3213834161}},
      {"label smoothing",
       {.label_smoothing = 0.1},
       {},
       {1.844171443},
       {0.01297344515, 0.05937946864, -0.09314249369, 0.0207895799, -0.2525446369, 0.1689627773,
        0.01566108601, 0.06792077364, 0.1969670836, 0.01945105674, 0.07996527572, -0.2963834161}},
      {"ignored label",
       {.ignore_index = 0},
       {},
       {1.883018183},
       {0.03196016772, 0.101569203, -0.1772137405, 0.04368436985, 0, 0, 0, 0, 0.3079506254,
        0.04167658511, 0.1324479136, -0.4820751241}},
      {"ignored label and smoothing",
       {.label_smoothing = 0.1, .ignore_index = 0},
       {},
       {1.880283808},
       {0.01946016772, 0.08906920297, -0.1397137405, 0.03118436985, 0, 0, 0, 0, 0.2954506254,
        0.02917658511, 0.1199479136, -0.4445751241}},
      {"sum",
       {.reduction = Reduction::sum},
       {},
       {5.553608079},
       {0.06392033544, 0.2031384059, -0.3544274811, 0.0873687397, -0.8326339107, 0.5318883318,
        0.07198325803, 0.2287623209, 0.6159012508, 0.08335317023, 0.2648958271, -0.9641502482}},
      {"each sample",
       {.ignore_index = 0, .reduction = Reduction::none},
       {3},
       {0.4376177297, 0, 3.328418635},
       {0.06392033544, 0.2031384059, -0.3544274811, 0.0873687397, 0, 0, 0, 0, 0.6159012508,
        0.08335317023, 0.2648958271, -0.9641502482}},
      {"class weights",
       {.class_weights = weights},
       {},
       {2.405487142},
       {0.01682114091, 0.05345747524, -0.09327038976, 0.0229917736, -0.08764567481, 0.05598824545,
        0.007577185056, 0.02408024431, 0.3889902637, 0.05264410751, 0.1673026277, -0.6089369989}},
      {"class weights and smoothing",
       {.label_smoothing = 0.1, .class_weights = weights},
       {},
       {2.370995886},
       {0.01477830189, 0.04480217109, -0.06758748498, 0.008007011997, -0.07556678574, 0.05875913795,
        0.002797819138, 0.01400982865, 0.3693403607, 0.03981461202, 0.1534041903, -0.5625591631}},
      {"class weights, one of them 0, and an ignored label",
       {.label_smoothing = 0.1, .ignore_index = 0, .class_weights = with_zero},
       {},
       {0.6334961841},
       {0.05232232706, 0.1580599458, -0.295566794, 0.08518452121, 0, 0, 0, 0, 0.03619259381,
        -0.03374851223, -0.005132812964, 0.002688731385}},
      {"class weights for each sample",
       {.label_smoothing = 0.2, .reduction = Reduction::none, .class_weights = weights},
       {3},
       {1.058751213, 1.208568514, 8.831077264},
       {0.06049344866, 0.1716976179, -0.1990467559, -0.03314431065, -0.3015675091, 0.2922676447,
        -0.009412347203, 0.01871221167, 1.661029674, 0.1281793035, 0.6626523268, -2.451861304}},
      {"class weights and the sum",
       {.label_smoothing = 0.3, .reduction = Reduction::sum, .class_weights = with_zero},
       {},
       {2.315635073},
       {0.03640788786, 0.08487878186, -0.222306775, 0.1010201053, -0.2818501561, 0.1857545094,
        -0.04831056837, 0.1444062151, 0.1357222268, -0.1265569209, -0.01924804862, 0.01008274269}},
  };
}

TEST(CrossEntropy, HasPyTorchsValuesAndGradients) {
  const Tensor narrow = Tensor::from({2, 0, 3}, {3});
  for (const Tensor& labels : {narrow, narrow.to(DType::i64)}) {
    for (const CrossEntropyCase& test : pytorch_cases()) {
      SCOPED_TRACE(test.name);
      const Tensor logits = variable({3, 4});
      const Tensor loss = cross_entropy(logits, labels, test.options);
      expect_values(loss, test.shape, test.loss);
      const Tensor ones = Tensor::ones(test.shape, {.dtype = DType::f64});
      const auto gradient = [&](bool create_graph) {
        return grad(
            {loss}, {logits},
            {.grad_outputs = {ones}, .create_graph = create_graph, .retain_graph = true})[0];
      };
      expect_values(gradient(false), {3, 4}, test.dlogits);
      expect_values(gradient(true), {3, 4}, test.dlogits);
    }
  }
}

TEST(CrossEntropy, HasDerivativesOfFirstAndSecondOrder) {
  const Tensor labels = Tensor::from({2, 0, 3}, {3});
  for (const CrossEntropyCase& test : pytorch_cases()) {
    SCOPED_TRACE(test.name);
    expect_gradients([&](const Inputs& in) { return cross_entropy(in[0], labels, test.options); },
                     {variable({3, 4})});
  }
}

TEST(CrossEntropy, TakesLeadingDimensions) {
  const Tensor logits = sequence({2, 2, 3}), labels = Tensor::from({0, 1, 2, 0}, {2, 2});
  const CrossEntropyOptions each{.reduction = Reduction::none};
  const Values flat =
      cross_entropy(logits.reshape({4, 3}), labels.reshape({4}), each).to_vector<double>();
  expect_values(cross_entropy(logits, labels, each), {2, 2}, flat);
  EXPECT_EQ(cross_entropy(sequence({3}), Tensor::from({1}, {}), each).shape(), Shape{});
  expect_gradients([&](const Inputs& in) { return cross_entropy(in[0], labels, each); },
                   {variable({2, 2, 3})});
}

// By hand: log(e^1000 + e^-1000) - (-1000) = 2000; softmax is (1, 0).
TEST(CrossEntropy, IsFiniteForExtremeLogits) {
  Tensor logits = Tensor::from({1000.0f, -1000.0f}, {1, 2});
  logits.set_requires_grad(true);
  const Tensor loss = cross_entropy(logits, Tensor::from({1}, {1}));
  EXPECT_EQ(loss.item(), 2000);
  loss.backward();
  expect_values(logits.grad(), {1, 2}, {1, -1});
}

TEST(CrossEntropy, IsZeroWithZeroGradientWhenNothingCounts) {
  for (const Shape& shape : {Shape{2, 3}, Shape{0, 3}}) {
    const Tensor logits = variable(shape);
    const Tensor labels = Tensor::full({shape[0]}, -1, {.dtype = DType::i32});
    const Tensor loss = cross_entropy(logits, labels, {.ignore_index = -1});
    EXPECT_EQ(loss.item<double>(), 0);
    const Values zeros(size_t(shape.numel()), 0);
    expect_values(grad({loss}, {logits}, {.retain_graph = true})[0], shape, zeros);
    expect_values(grad({loss}, {logits}, {.create_graph = true})[0], shape, zeros);
  }
}

// PyTorch 1.13: F.cross_entropy(logits, shares, label_smoothing=s) in f64, and its gradient.
TEST(CrossEntropy, TakesSharesOfTheClassesForLabels) {
  const Tensor logits = Tensor::from<double>({1, -2, 0.5, 0.25, 3, -1}, {2, 3}),
               shares = Tensor::from<double>({0.7, 0.2, 0.1, 0, 0.5, 0.5}, {2, 3});
  const auto loss = [&](double smoothing, Reduction reduction) {
    return cross_entropy(logits, shares, {.label_smoothing = smoothing, .reduction = reduction});
  };
  expect_values(loss(0, Reduction::mean), {}, {1.6168165518731916});
  expect_values(loss(0, Reduction::none), {2}, {1.1545969023422833, 2.0790362014041});
  expect_values(loss(0.1, Reduction::mean), {}, {1.6551498852065252});
  expect_values(loss(0.1, Reduction::sum), {}, {3.3102997704130503});
  Tensor x = logits.clone();
  x.set_requires_grad(true);
  cross_entropy(x, shares, {.label_smoothing = 0.1}).backward();
  expect_values(x.grad(), {2, 3},
                {-0.02979221859235376, -0.09163722288187966, 0.12142944147423343,
                 0.012868212129588451, 0.2203365700872668, -0.23320478221685526});
  for (const double smoothing : {0.0, 0.1}) {
    expect_gradients(
        [&](const Inputs& in) {
          return cross_entropy(in[0], in[1], {.label_smoothing = smoothing});
        },
        {variable({2, 3}), variable({2, 3})});
  }
}

TEST(CrossEntropy, WeighsSharesOfTheClasses) {
  const Tensor logits = Tensor::from<double>({1, -2, 0.5, 0.25, 3, -1}, {2, 3}),
               shares = Tensor::from<double>({0.7, 0.2, 0.1, 0, 0.5, 0.5}, {2, 3}),
               weights = Tensor::from<double>({0.5, 2, 1.25}, {3});
  CrossEntropyOptions options{.class_weights = weights};
  expect_values(cross_entropy(logits, shares, options), {}, {2.16622805841558});
  options.label_smoothing = 0.1;
  expect_values(cross_entropy(logits, shares, options), {}, {2.2027489882248372});
  options.reduction = Reduction::none;
  expect_values(cross_entropy(logits, shares, options), {2},
                {1.817528006720667, 2.5879699697290084});
}

TEST(CrossEntropy, RefusesSharesThatDoNotFit) {
  const Tensor logits = Tensor::zeros({4, 3}), shares = Tensor::ones({4, 3});
  expect_error<ShapeError>(
      [&] {
        return cross_entropy(logits, Tensor::ones({3, 4}));
      },
      "[cross_entropy] labels are (3, 4) f32; class labels are i32 or i64, "
      "floating ones shares of the classes in the logits' shape (4, 3)");
  expect_error<ShapeError>([&] { return cross_entropy(logits, shares, {.label_smoothing = -0.5}); },
                           "[cross_entropy] label_smoothing is -0.5, wanted 0..1");
  expect_error<ShapeError>(
      [&] { return cross_entropy(logits, shares, {.class_weights = Tensor::ones({4})}); },
      "[cross_entropy] class_weights is (4,), wanted (3,)");
}

TEST(CrossEntropy, TakesWholeSharesAsLabelsInEveryDtype) {
  const Tensor logits = sequence({3, 4}).to(DType::f32), labels = Tensor::from({2, 0, 3}, {3});
  const Tensor shares = Tensor::from<float>({0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1}, {3, 4});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = logits.to(dtype);
    const Tensor loss = cross_entropy(x, shares.to(dtype), {.label_smoothing = 0.2});
    EXPECT_EQ(loss.dtype(), DType::f32);
    EXPECT_NEAR(loss.item(), cross_entropy(x, labels, {.label_smoothing = 0.2}).item(), 1e-6);
  }
}

TEST(CrossEntropy, NamesTheSampleOfAWrongLabel) {
  const Tensor logits = Tensor::zeros({4, 10});
  expect_error<Error>(
      [&] {
        return cross_entropy(logits, Tensor::from({1, 2, 9, 10}, {4}));
      },
      "[cross_entropy] label 10 of sample 3 is outside 0..9 (10 classes)");
  expect_error<Error>(
      [&] {
        return cross_entropy(logits, Tensor::from({1, -1, -4, 0}, {4}), {.ignore_index = -1});
      },
      "[cross_entropy] label -4 of sample 2 is outside 0..9 (10 classes)");
  expect_error<Error>(
      [&] {
        return cross_entropy(logits, Tensor::from<int64_t>({0, -1, 0, 0}, {4}));
      },
      "label -1 of sample 1 is outside 0..9");
}

TEST(CrossEntropy, RefusesClassWeightsThatDoNotFit) {
  const Tensor logits = Tensor::zeros({2, 3}, {.dtype = DType::bf16});
  const Tensor labels = Tensor::from({0, 1}, {2});
  const auto with = [&](const Tensor& weights) {
    return cross_entropy(logits, labels, {.class_weights = weights});
  };
  expect_error<ShapeError>([&] { return with(Tensor::ones({2})); },
                           "[cross_entropy] class_weights is (2,), wanted (3,)");
  expect_error<ShapeError>([&] { return with(Tensor::ones({3}, {.dtype = DType::bf16})); },
                           "[cross_entropy] class_weights (3,) is bf16, wanted f32");
  Tensor learned = Tensor::ones({3});
  learned.set_requires_grad(true);
  expect_error<Error>([&] { return with(learned); },
                      "[cross_entropy] class_weights ask for a gradient, which they do not get");
}

TEST(CrossEntropy, RefusesOperandsThatDoNotGoTogether) {
  const Tensor logits = Tensor::zeros({4, 10});
  expect_error<ShapeError>(
      [&] {
        return cross_entropy(logits, Tensor::from({1, 2}, {2}));
      },
      "[cross_entropy] logits (..., C) are (4, 10), labels (2,); wanted one "
      "label a sample: (4,)");
  expect_error<ShapeError>([&] { return cross_entropy(logits, Tensor::zeros({4})); },
                           "[cross_entropy] labels are (4,) f32; class labels are i32 or i64, "
                           "floating ones shares of the classes in the logits' shape (4, 10)");
  expect_error<ShapeError>(
      [&] {
        return cross_entropy(logits, Tensor::from({0, 0, 0, 0}, {4}), {.label_smoothing = 1.5});
      },
      "[cross_entropy] label_smoothing is 1.5, wanted 0..1");
}

// Values: PyTorch 1.13.
TEST(MseLoss, HasPyTorchsValuesAndGradients) {
  const Tensor x = variable({2, 3}), target = sequence({2, 3}, 20);
  const Tensor mean = mse_loss(x, target);
  expect_values(mean, {}, {1.393391927});
  expect_values(
      grad({mean}, {x})[0], {2, 3},
      {-0.2083333333, -0.2083333333, -0.2083333333, -0.2083333333, -0.2083333333, 0.84375});
  const Tensor total = mse_loss(x, target, {.reduction = Reduction::sum});
  expect_values(total, {}, {8.360351562});
  expect_values(grad({total}, {x})[0], {2, 3}, {-1.25, -1.25, -1.25, -1.25, -1.25, 5.0625});
  expect_values(mse_loss(x, target, {.reduction = Reduction::none}), {2, 3},
                {0.390625, 0.390625, 0.390625, 0.390625, 0.390625, 6.407226562});
}

TEST(MseLoss, HasDerivativesInBothOperands) {
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    expect_gradients(
        [=](const Inputs& in) { return mse_loss(in[0], in[1], {.reduction = reduction}); },
        {variable({2, 3}), variable({2, 3}, 20)});
  }
}

TEST(MseLoss, RefusesABroadcast) {
  expect_error<ShapeError>(
      [] {
        return mse_loss(Tensor::ones({5, 1}), Tensor::ones({5}));
      },
      "[mse_loss] prediction is (5, 1), target (5,); shapes must be equal, reshape one of them");
  EXPECT_TRUE(std::isnan(mse_loss(Tensor::ones({0, 1}), Tensor::ones({0, 1})).item()));
}

}  // namespace
}  // namespace adret
