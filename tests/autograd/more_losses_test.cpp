// Losses beside cross-entropy: random operands against loops, extreme logits, 16 bits, refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Operands of random sizes.
class Draw {
 public:
  explicit Draw(unsigned seed) : generator_(seed) {}
  int64_t integer(int64_t low, int64_t high) {
    return low + int64_t(generator_() % uint64_t(high - low + 1));
  }
  double number(double low, double high) {
    return low + (high - low) * double(generator_()) / double(std::mt19937::max());
  }
  Values numbers(int64_t count, double low = -3, double high = 3) {
    Values values;
    for (int64_t i = 0; i < count; ++i) values.push_back(number(low, high));
    return values;
  }
  Reduction reduction() { return Reduction(integer(0, 2)); }

 private:
  std::mt19937 generator_;
};

Values reduced(const Values& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  double sum = 0;
  for (double v : losses) sum += v;
  return {reduction == Reduction::sum ? sum : sum / double(losses.size())};
}

void expect_losses(const Tensor& actual, const Values& losses, Reduction reduction) {
  const Values expected = reduced(losses, reduction);
  const Shape shape = reduction == Reduction::none ? actual.shape() : Shape{};
  ASSERT_EQ(actual.numel(), int64_t(expected.size()));
  expect_values(actual, shape, expected, 1e-10 * (1 + double(losses.size())));
}

TEST(Losses, OfTwoNumbersMatchTheirDefinitions) {
  Draw draw(31);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(fmt::format("case {} of seed 31", i));
    const Shape shape{draw.integer(1, 4), draw.integer(1, 7)};
    const Reduction r = draw.reduction();
    const Values a = draw.numbers(shape.numel()), b = draw.numbers(shape.numel());
    const Values p = draw.numbers(shape.numel(), 0, 1);
    const double knee = draw.number(0.1, 2), margin = draw.number(-1, 1);
    const auto all = [&](auto loss) {
      Values losses;
      for (size_t k = 0; k < a.size(); ++k) losses.push_back(loss(k));
      return losses;
    };
    const auto distance = [&](size_t k) { return std::abs(a[k] - b[k]); };
    const Tensor x = Tensor::from(a, shape), y = Tensor::from(b, shape);
    const Tensor shares = Tensor::from(p, shape);
    expect_losses(l1_loss(x, y, {r}), all(distance), r);
    expect_losses(mse_loss(x, y, {r}), all([&](size_t k) { return distance(k) * distance(k); }), r);
    const auto huber = [&](size_t k) {
      const double d = distance(k);
      return d < knee ? d * d / 2 : knee * (d - knee / 2);
    };
    expect_losses(huber_loss(x, y, {knee, r}), all(huber), r);
    expect_losses(smooth_l1_loss(x, y, {knee, r}), all([&](size_t k) { return huber(k) / knee; }),
                  r);
    expect_losses(binary_cross_entropy_with_logits(x, shares, {.reduction = r}), all([&](size_t k) {
                    const double q = 1 / (1 + std::exp(-a[k]));
                    return -p[k] * std::log(q) - (1 - p[k]) * std::log(1 - q);
                  }),
                  r);
    expect_losses(kl_div(x, shares, {.reduction = r}),
                  all([&](size_t k) { return p[k] * (std::log(p[k]) - a[k]); }), r);
    const auto sign = [&](size_t k) { return p[k] > 0.5 ? 1.0 : -1.0; };
    const Tensor labels = Tensor::from(all(sign), shape);
    expect_losses(margin_ranking_loss(x, y, labels, {margin, r}),
                  all([&](size_t k) { return std::max(0.0, margin - sign(k) * (a[k] - b[k])); }),
                  r);
    expect_losses(soft_margin_loss(x, labels, {r}),
                  all([&](size_t k) { return std::log(1 + std::exp(-sign(k) * a[k])); }), r);
    expect_losses(hinge_embedding_loss(x, labels, {margin, r}),
                  all([&](size_t k) { return sign(k) > 0 ? a[k] : std::max(0.0, margin - a[k]); }),
                  r);
  }
}

TEST(Losses, OfLabelsMatchTheirDefinitions) {
  Draw draw(32);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(fmt::format("case {} of seed 32", i));
    const int64_t samples = draw.integer(1, 6), classes = draw.integer(1, 8);
    const Reduction r = draw.reduction();
    const Values scores = draw.numbers(samples * classes);
    const Values weights = draw.numbers(classes, 0.1, 2);
    const double margin = draw.number(0, 1.5);
    const int p = int(draw.integer(1, 2));
    std::vector<int32_t> labels, with_ignored;
    Values nll, hinge;
    double counted = 0;
    for (int64_t n = 0; n < samples; ++n) {
      const int64_t label = draw.integer(0, classes - 1);
      const bool counts = draw.integer(0, 3) > 0;
      labels.push_back(int32_t(label));
      with_ignored.push_back(counts ? int32_t(label) : -5);
      const double weight = weights[size_t(label)];
      const double* const row = &scores[size_t(n * classes)];
      nll.push_back(counts ? -weight * row[label] : 0);
      counted += counts ? weight : 0;
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) {
        if (c != label) sum += std::pow(std::max(0.0, margin - row[label] + row[c]), p);
      }
      hinge.push_back(weight * sum / double(classes));
    }
    const Tensor x = Tensor::from(scores, {samples, classes});
    const Tensor of_classes = Tensor::from(weights, {classes});
    if (r == Reduction::mean) {
      double sum = 0;
      for (double v : nll) sum += v;
      nll = {counted > 0 ? sum / counted : 0};
    }
    expect_losses(nll_loss(x, Tensor::from(with_ignored, {samples}),
                           {.ignore_index = -5, .reduction = r, .class_weights = of_classes}),
                  nll, r);
    expect_losses(
        multi_margin_loss(x, Tensor::from(labels, {samples}),
                          {.p = p, .margin = margin, .reduction = r, .class_weights = of_classes}),
        hinge, r);
  }
}

TEST(Losses, OfVectorsMatchTheirDefinitions) {
  Draw draw(33);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(fmt::format("case {} of seed 33", i));
    const int64_t rows = draw.integer(1, 5), width = draw.integer(1, 6);
    const Reduction r = draw.reduction();
    const Values a = draw.numbers(rows * width), p = draw.numbers(rows * width),
                 n = draw.numbers(rows * width);
    const double margin = draw.number(-0.5, 1), power = double(draw.integer(1, 3));
    const bool swap = draw.integer(0, 1) == 1;
    Values cosines, triplets, signs;
    for (int64_t row = 0; row < rows; ++row) {
      double product = 0, of_a = 0, of_p = 0, ap = 0, an = 0, pn = 0;
      for (size_t k = size_t(row * width); k < size_t((row + 1) * width); ++k) {
        product += a[k] * p[k];
        of_a += a[k] * a[k];
        of_p += p[k] * p[k];
        ap += std::pow(std::abs(a[k] - p[k] + 1e-6), power);
        an += std::pow(std::abs(a[k] - n[k] + 1e-6), power);
        pn += std::pow(std::abs(p[k] - n[k] + 1e-6), power);
      }
      const double cosine = product / std::sqrt(of_a * of_p);
      signs.push_back(draw.integer(0, 1) == 1 ? 1 : -1);
      cosines.push_back(signs.back() > 0 ? 1 - cosine : std::max(0.0, cosine - margin));
      const auto root = [&](double sum) { return std::pow(sum, 1 / power); };
      const double negative = swap ? std::min(root(an), root(pn)) : root(an);
      triplets.push_back(std::max(0.0, margin + root(ap) - negative));
    }
    const Shape shape{rows, width};
    const Tensor x = Tensor::from(a, shape), y = Tensor::from(p, shape), z = Tensor::from(n, shape);
    expect_losses(cosine_embedding_loss(x, y, Tensor::from(signs, {rows}), {margin, r}), cosines,
                  r);
    expect_losses(
        triplet_margin_loss(x, y, z, {.margin = margin, .p = power, .swap = swap, .reduction = r}),
        triplets, r);
  }
}

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
  const Tensor labels = Tensor::from({0, 1, 2, 3}, {4});
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
  // Operands of each other's places, and of a transposed shape.
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
