// Losses beside cross-entropy: extreme operands, 16 bits, refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/error.h>

#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(NllLoss, OfLogSoftmaxIsCrossEntropy) {
  const Tensor logits = variable({4, 5}), labels = Tensor::from({2, 0, 4, 2}, {4});
  const Tensor weights = positive_variable({5}).detach();
  const Tensor loss =
      nll_loss(log_softmax(logits), labels, {.ignore_index = 0, .class_weights = weights});
  const Tensor expected =
      cross_entropy(logits, labels, {.ignore_index = 0, .class_weights = weights});
  expect_values(loss, {}, {expected.item<double>()}, 1e-12);
  expect_values(grad({loss}, {logits})[0], {4, 5},
                grad({expected}, {logits})[0].to_vector<double>(), 1e-12);
}

// The gradient is linear in that of the loss, which has one again.
TEST(NllLoss, HasDerivativesOfFirstAndSecondOrder) {
  const Tensor weights = positive_variable({5}).detach();
  const Tensor labels = Tensor::from({2, 0, 4, -100, 1, 2}, {2, 3});
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    for (const Tensor& of_classes : {Tensor(), weights}) {
      const auto loss = [&](const std::vector<Tensor>& in) {
        return nll_loss(in[0], labels, {.reduction = reduction, .class_weights = of_classes});
      };
      expect_gradients(loss, {variable({2, 3, 5})});
      const Tensor x = variable({2, 3, 5}), y = loss({x}), dy = variable(y.shape(), 7);
      const Tensor composed = grad({y}, {x}, {.grad_outputs = {dy}, .create_graph = true})[0];
      const Tensor fused = grad({loss({x})}, {x}, {.grad_outputs = {dy}})[0];
      expect_values(composed, x.shape(), fused.to_vector<double>(), 1e-12);
      const Tensor factor = sequence(x.shape(), 11);
      // sum(dx * factor) = loss(factor) * dy, so that its derivative by dy is the loss of factor.
      expect_values(grad({sum(composed * factor)}, {dy})[0], y.shape(),
                    loss({factor}).to_vector<double>(), 1e-12);
    }
  }
}

TEST(NllLoss, IsZeroWhenNothingCountsAndKeepsInfinitiesOut) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = leaf({-inf, 0, -1, -inf}, {2, 2}), labels = Tensor::from({1, 0}, {2});
  const Tensor loss = nll_loss(x, labels);
  expect_values(loss, {}, {0.5});
  expect_values(grad({loss}, {x})[0], {2, 2}, {0, -0.5, -0.5, 0});
  expect_values(nll_loss(x, Tensor::from({-100, -100}, {2})), {}, {0});
}

// By hand: the loss of a logit z towards its target is log(1 + exp(-z)), 200 at -200.
TEST(BinaryLosses, AreFiniteForExtremeLogits) {
  const Tensor x = Tensor::from<float>({-200, 200, -200, 200}, {4});
  const Tensor targets = Tensor::from<float>({0, 0, 1, 1}, {4});
  expect_values(binary_cross_entropy_with_logits(x, targets, {.reduction = Reduction::none}), {4},
                {0, 200, 200, 0});
  const FocalOptions focal{.alpha = -1, .gamma = 0.5, .reduction = Reduction::none};
  Tensor logits = x.clone();
  logits.set_requires_grad(true);
  const Tensor loss = focal_loss(logits, targets, focal);
  expect_values(loss, {4}, {0, 200, 200, 0});
  expect_values(grad({sum(loss)}, {logits})[0], {4}, {0, 1, -1, 0});
}

// By hand: a b / (|a| max(|b|, 5)) for |a| = 5, |b| = 1, of which the derivative by a shorter b is
// a unit vector's fifth.
TEST(CosineSimilarity, CountsShortVectorsAsEpsilonLong) {
  const Tensor a = Tensor::from({3.0, 4.0}, {2}), b = leaf({0, 1});
  const Tensor similarity = cosine_similarity(a, b, {.epsilon = 5});
  expect_values(similarity, {}, {0.16});
  expect_values(grad({similarity}, {b})[0], {2}, {0.12, 0.16});
  const Tensor zero = leaf({0, 0});
  expect_values(grad({cosine_similarity(zero, zero)}, {zero})[0], {2}, {0, 0});
}

TEST(Losses, AreGivenInF32For16Bits) {
  const Tensor x = sequence({3, 4}).to(DType::bf16), y = sequence({3, 4}, 20).to(DType::bf16);
  const Tensor labels = Tensor::from({0, 1, 3}, {3});
  for (const Tensor& loss :
       {l1_loss(x, y), huber_loss(x, y), kl_div(x, y, {.log_target = true}), soft_margin_loss(x, y),
        binary_cross_entropy_with_logits(x, y), focal_loss(x, y), nll_loss(x, labels),
        multi_margin_loss(x, labels), triplet_margin_loss(x, y, x)}) {
    EXPECT_EQ(loss.dtype(), DType::f32);
  }
  EXPECT_EQ(cosine_similarity(x, y).dtype(), DType::bf16);
}

TEST(Losses, RefuseWhatDoesNotGoTogether) {
  const Tensor x = Tensor::ones({4, 3}), row = Tensor::ones({3}), wide = x.to(DType::f64);
  expect_error<ShapeError>([&] { return l1_loss(x, row); },
                           "[l1_loss] prediction is (4, 3), target (3,); shapes must be equal");
  expect_error<ShapeError>([&] { return huber_loss(x, wide); },
                           "[huber_loss] prediction (4, 3) is f32, target (4, 3) is f64");
  expect_error<ShapeError>([&] { return huber_loss(x, x, {.delta = 0}); },
                           "[huber_loss] delta is 0, wanted more than 0");
  expect_error<ShapeError>([&] { return smooth_l1_loss(x, x, {.beta = -1}); },
                           "[smooth_l1_loss] beta is -1, wanted 0 or more");
  expect_error<ShapeError>([&] { return kl_div(x, row); },
                           "[kl_div] log_probabilities is (4, 3), target (3,)");
  expect_error<ShapeError>([&] { return focal_loss(x, x, {.gamma = -1}); },
                           "[focal_loss] gamma is -1, wanted 0 or more");
  expect_error<ShapeError>([&] { return focal_loss(x, x, {.alpha = 2}); },
                           "[focal_loss] alpha is 2, wanted at most 1");
  expect_error<ShapeError>(
      [&] {
        return binary_cross_entropy_with_logits(x, x, {.weight = Tensor::ones({2, 4, 3})});
      },
      "[binary_cross_entropy_with_logits] weight is (2, 4, 3), wanted what broadcasts to (4, 3)");
  expect_error<ShapeError>(
      [&] { return binary_cross_entropy_with_logits(x, x, {.pos_weight = row.to(DType::f64)}); },
      "[binary_cross_entropy_with_logits] pos_weight (3,) is f64, wanted f32");
}

TEST(Losses, RefuseLabelsThatDoNotFit) {
  const Tensor x = Tensor::ones({4, 3}), row = Tensor::ones({3});
  const Tensor labels = Tensor::from({0, 1, 2, 3}, {4});
  expect_error<Error>([&] { return nll_loss(x, labels); },
                      "[nll_loss] label 3 of sample 3 is outside 0..2 (3 classes)");
  expect_error<ShapeError>([&] { return nll_loss(x, row); }, "[nll_loss] labels (3,) is f32");
  expect_error<Error>([&] { return multi_margin_loss(x, labels); },
                      "[multi_margin_loss] label 3 of sample 3 is outside 0..2");
  expect_error<ShapeError>(
      [&] {
        return multi_margin_loss(Tensor::ones({4, 5}), labels, {.p = 3});
      },
      "[multi_margin_loss] p is 3, wanted 1 or 2");
}

TEST(Losses, RefuseVectorsThatDoNotFit) {
  const Tensor x = Tensor::ones({4, 3}), row = Tensor::ones({3});
  expect_error<ShapeError>([&] { return cosine_similarity(x, x, {.dim = 2}); },
                           "[cosine_similarity] dimension 2 is out of range");
  expect_error<ShapeError>([&] { return cosine_embedding_loss(x, x, row); },
                           "[cosine_embedding_loss] labels is (3,), wanted (4,)");
  expect_error<ShapeError>([&] { return margin_ranking_loss(x, row, x); },
                           "[margin_ranking_loss] a is (4, 3), b (3,)");
  expect_error<ShapeError>([&] { return hinge_embedding_loss(x, row); },
                           "[hinge_embedding_loss] labels is (3,), wanted (4, 3)");
  expect_error<ShapeError>([&] { return triplet_margin_loss(x, x, row); },
                           "[triplet_margin_loss] anchor is (4, 3), negative (3,)");
  expect_error<ShapeError>([&] { return triplet_margin_loss(x, x, x, {.p = -1}); },
                           "[triplet_margin_loss] p is -1, wanted more than 0");
  expect_error<ShapeError>([&] { return triplet_margin_loss(x, x, x, {.p = nan}); },
                           "[triplet_margin_loss] p is nan, wanted more than 0");
}

TEST(Losses, RefuseOperandsInEachOthersPlaces) {
  const Tensor x = Tensor::ones({4, 3}), row = Tensor::ones({3});
  const Tensor labels = Tensor::from({0, 1, 2, 3}, {4});
  expect_error<ShapeError>([&] { return nll_loss(labels, x); },
                           "[nll_loss] log_probabilities (4,) is i32, wanted a floating dtype");
  expect_error<ShapeError>(
      [&] {
        return nll_loss(Tensor::ones({3, 4}), labels);
      },
      "[nll_loss] log_probabilities (..., C) are (3, 4), labels (4,)");
  expect_error<ShapeError>(
      [&] {
        return nll_loss(Tensor::ones({4, 4}), labels, {.class_weights = row});
      },
      "[nll_loss] class_weights is (3,), wanted (4,)");
  expect_error<ShapeError>(
      [&] {
        return kl_div(x, Tensor::ones({3, 4}));
      },
      "[kl_div] log_probabilities is (4, 3), target (3, 4)");
  expect_error<ShapeError>(
      [&] {
        return hinge_embedding_loss(x, Tensor::ones({3, 4}));
      },
      "[hinge_embedding_loss] labels is (3, 4), wanted (4, 3)");
  expect_error<ShapeError>(
      [&] {
        return cosine_embedding_loss(x, Tensor::ones({3, 4}), labels);
      },
      "[cosine_embedding_loss] a is (4, 3), b (3, 4)");
}

TEST(Losses, RefuseIntegersForNumbers) {
  const Tensor x = Tensor::ones({4, 3}), whole = x.to(DType::i32), truths = x.to(DType::boolean);
  const Tensor labels = Tensor::from({0, 1, 2, 1}, {4});
  expect_error<ShapeError>([&] { return focal_loss(whole, whole); },
                           "[focal_loss] logits (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return focal_loss(x, whole); },
                           "[focal_loss] logits (4, 3) is f32, targets (4, 3) is i32");
  expect_error<ShapeError>(
      [&] { return binary_cross_entropy_with_logits(whole, whole); },
      "[binary_cross_entropy_with_logits] logits (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return kl_div(whole, whole); },
                           "[kl_div] log_probabilities (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return cross_entropy(whole, labels); },
                           "[cross_entropy] logits (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return cross_entropy(whole, x); },
                           "[cross_entropy] logits (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return multi_margin_loss(whole, labels); },
                           "[multi_margin_loss] scores (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return hinge_embedding_loss(whole, x); },
                           "[hinge_embedding_loss] x (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return hinge_embedding_loss(x, truths); },
                           "[hinge_embedding_loss] labels (4, 3) is boolean, wanted");
  expect_error<ShapeError>([&] { return soft_margin_loss(whole, x); },
                           "[soft_margin_loss] x (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return cosine_embedding_loss(whole, whole, labels); },
                           "[cosine_embedding_loss] a (4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return triplet_margin_loss(whole, whole, whole); },
                           "[triplet_margin_loss] anchor (4, 3) is i32, wanted a floating dtype");
}

}  // namespace
}  // namespace adret
