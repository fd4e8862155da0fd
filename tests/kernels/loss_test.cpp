// Cross-entropy against PyTorch's values and by hand.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using kernels::CrossEntropyParams;
using kernels::Reduction;
using Values = std::vector<double>;

struct Result {
  Values loss, log_sum_exp, counted, dlogits;
};

// What one call gives, beside what two gave.
template <class T>
void expect_same(const Guarded<T>& together, const Guarded<T>& apart, const std::string& what) {
  const Values a = together.values(), b = apart.values();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << what << " " << i;
    // A few roundings of an exponential and its share; a gradient is the difference of two such
    // terms, which are below 3 with weights.
    if (std::isnan(a[i])) continue;
    ASSERT_NEAR(a[i], b[i], 2e-6 * std::abs(b[i]) + 2e-7) << what << " " << i;
  }
  EXPECT_TRUE(together.guards_intact());
}

// Forward, then backward with the given gradient of the loss; and both in one call.
template <class T, class Label>
Result cross_entropy(const Values& logits, const std::vector<Label>& labels, int64_t classes,
                     const Values& dloss, const CrossEntropyParams& params,
                     const Values& weights = {}) {
  const Guarded<T> weight_values({int64_t(weights.size())}, weights);
  const TensorView class_weights = weights.empty() ? TensorView() : TensorView(weight_values);
  const int64_t samples = int64_t(labels.size());
  const Shape loss_shape = params.reduction == Reduction::none ? Shape{samples} : Shape{};
  const Guarded<T> x({samples, classes}, logits), loss(loss_shape), log_sum_exp({samples});
  const Guarded<T> counted(Shape{}), gradient(loss_shape, dloss), dx({samples, classes});
  const Tensor y = Tensor::from(labels, {samples});
  // Neither is there for log-probabilities.
  const bool are_logits = !params.log_probabilities;
  const TensorView log_sums = are_logits ? TensorView(log_sum_exp) : TensorView();
  const TensorView backward_logits = are_logits ? TensorView(x) : TensorView();
  run(kernels::CrossEntropyForward{.logits = x,
                                   .labels = y,
                                   .class_weights = class_weights,
                                   .loss = loss,
                                   .log_sum_exp = log_sums,
                                   .counted = counted,
                                   .loss_params = params});
  run(kernels::CrossEntropyBackward{.logits = backward_logits,
                                    .labels = y,
                                    .class_weights = class_weights,
                                    .log_sum_exp = log_sums,
                                    .counted = counted,
                                    .dloss = gradient,
                                    .dlogits = dx,
                                    .loss_params = params});
  const Guarded<T> loss_together(loss_shape), dx_together({samples, classes});
  run(kernels::CrossEntropyForward{.logits = x,
                                   .labels = y,
                                   .class_weights = class_weights,
                                   .loss = loss_together,
                                   .log_sum_exp = log_sums,
                                   .counted = counted,
                                   .dloss = gradient,
                                   .dlogits = dx_together,
                                   .loss_params = params});
  expect_same(loss_together, loss, "loss");
  expect_same(dx_together, dx, "dlogits");
  EXPECT_TRUE(loss.guards_intact() && log_sum_exp.guards_intact() && dx.guards_intact());
  return {loss.values(), log_sum_exp.values(), counted.values(), dx.values()};
}

struct Golden {
  double smoothing;
  Reduction reduction;
  Values dloss, loss, dlogits;
};

// PyTorch 1.13.1:
//   x = tensor([[1, 2, 3], [0.5, -1, 4], [-2, 0, 1], [3, 3, -3]], dtype=float64,
//   requires_grad=True) l = F.cross_entropy(x, tensor([2, 0, -100, 1]), reduction=r,
//   label_smoothing=s) l.backward(dloss)
const Values golden_logits{1, 2, 3, 0.5, -1, 4, -2, 0, 1, 3, 3, -3};
const Golden goldens[] = {
    {0,
     Reduction::mean,
     {1.5},
     {1.54608711},
     {0.0450152866, 0.122364236, -0.167379522, -0.485439119, 0.00324897166, 0.482190148, 0, 0, 0,
      0.24969054, -0.25030946, 0.000618920968}},
    {0,
     Reduction::sum,
     {1.5},
     {4.63826132},
     {0.13504586, 0.367092707, -0.502138566, -1.45631736, 0.00974691497, 1.44657044, 0, 0, 0,
      0.749071619, -0.750928381, 0.0018567629}},
    {0,
     Reduction::none,
     {1, 2, 3, -1},
     {0.407605964, 3.53626957, 0, 0.694385789},
     {0.0900305732, 0.244728471, -0.334759044, -1.94175648, 0.0129958866, 1.92876059, 0, 0, 0,
      -0.499381079, 0.500618921, -0.00123784194}},
    {0.1,
     Reduction::mean,
     {1.5},
     {1.62386488},
     {0.0283486199, 0.105697569, -0.134046189, -0.452105786, -0.013417695, 0.465523481, 0, 0, 0,
      0.233023873, -0.216976127, -0.0160477457}},
    {0.1,
     Reduction::sum,
     {1.5},
     {4.87159465},
     {0.0850458598, 0.317092707, -0.402138566, -1.35631736, -0.040253085, 1.39657044, 0, 0, 0,
      0.699071619, -0.650928381, -0.0481432371}},
    {0.1,
     Reduction::none,
     {1, 2, 3, -1},
     {0.507605964, 3.4696029, 0, 0.894385789},
     {0.0566972398, 0.211395138, -0.268092378, -1.80842314, -0.05367078, 1.86209392, 0, 0, 0,
      -0.466047746, 0.433952254, 0.0320954914}},
};

template <class T, class Label>
void expect_goldens(Tolerance tolerance) {
  for (const Golden& golden : goldens) {
    const CrossEntropyParams params{.label_smoothing = golden.smoothing,
                                    .reduction = golden.reduction};
    const Result result =
        cross_entropy<T>(golden_logits, std::vector<Label>{2, 0, -100, 1}, 3, golden.dloss, params);
    const std::string what = to_string(params);
    expect_close(result.loss, golden.loss, tolerance, what);
    expect_close(result.dlogits, golden.dlogits, tolerance, what);
    expect_close(result.log_sum_exp, {3.40760596, 4.03626957, 1.34901222, 3.69438579}, tolerance,
                 what);
    EXPECT_EQ(result.counted, (Values{3}));
  }
}

TEST(CrossEntropy, MatchesPyTorch) {
  expect_goldens<double, int64_t>({.absolute = 1e-8});  // the digits printed above
  expect_goldens<double, int32_t>({.absolute = 1e-8});
  expect_goldens<float, int64_t>({.absolute = 1e-6});  // a few roundings of f32 at 4
}

TEST(CrossEntropy, MatchesTheDefinitionForManyClasses) {
  const int64_t samples = 70, classes = 1000;
  const Values x = random_values(samples * classes, 1);
  std::vector<int32_t> labels;
  Values losses;
  for (int64_t i = 0; i < samples; ++i) {
    labels.push_back(int32_t(i * 997 % classes));
    long double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[size_t(i * classes + c)]);
    losses.push_back(std::log(double(sum)) - x[size_t(i * classes + labels.back())]);
  }
  const Result result = cross_entropy<float>(x, labels, classes, Values(size_t(samples), 1),
                                             {.reduction = Reduction::none});
  expect_close(result.loss, losses, {.relative = 1e-6}, "loss");
  // A sample's gradient sums to nothing.
  for (int64_t i = 0; i < samples; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += result.dlogits[size_t(i * classes + c)];
    EXPECT_NEAR(sum, 0, 1e-6);
  }
}

TEST(CrossEntropy, TakesAnyNumberOfClassesAndSamples) {
  for (const int64_t classes : {2, 31, 32, 33, 128, 129, 1024, 1025, 2000}) {
    for (const int64_t samples : {1, 7, 300}) {
      const Values x = random_values(samples * classes, uint32_t(classes));
      std::vector<int64_t> labels;
      Values losses;
      double total = 0;
      for (int64_t i = 0; i < samples; ++i) {
        labels.push_back(i % 5 == 1 ? -100 : i * 997 % classes);
        if (labels.back() < 0) continue;
        double sum = 0;
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[size_t(i * classes + c)]);
        losses.push_back(std::log(sum) - x[size_t(i * classes + labels.back())]);
        total += losses.back();
      }
      const Result result = cross_entropy<float>(x, labels, classes, {2}, {});
      SCOPED_TRACE(classes);
      expect_close(result.loss, {total / double(losses.size())}, {.absolute = 1e-5}, "loss");
      EXPECT_EQ(result.counted, (Values{double(losses.size())}));
    }
  }
}

// From the definition, sample by sample, for all sizes of rows.
TEST(CrossEntropy, WeighsTheClasses) {
  for (const int64_t classes : {1, 3, 10, 33, 130, 1030, 2000}) {
    const int64_t samples = 70;
    const Values x = random_values(samples * classes, uint32_t(classes));
    Values weights = random_values(classes, 5);
    for (double& w : weights) w = std::abs(w) + 0.125;
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < samples; ++i) labels.push_back(i % 5 == 1 ? -100 : i * 997 % classes);
    for (const double smoothing : {0.0, 0.3}) {
      Values losses, gradients;
      double total = 0, counted = 0;
      for (int64_t i = 0; i < samples; ++i) {
        const double* const row = &x[size_t(i * classes)];
        const int64_t label = labels[size_t(i)];
        double sum = 0, loss = 0, targets = 0;
        const auto target = [&](int64_t c) {
          return weights[size_t(c)] *
                 (smoothing / double(classes) + (c == label ? 1 - smoothing : 0));
        };
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c]);
        for (int64_t c = 0; c < classes; ++c) {
          loss += target(c) * (std::log(sum) - row[c]);
          targets += target(c);
        }
        losses.push_back(label < 0 ? 0 : loss);
        total += losses.back();
        counted += label < 0 ? 0 : weights[size_t(label)];
        for (int64_t c = 0; c < classes; ++c) {
          gradients.push_back(label < 0 ? 0 : targets * std::exp(row[c]) / sum - target(c));
        }
      }
      for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
        const CrossEntropyParams params{.label_smoothing = smoothing, .reduction = reduction};
        const bool none = reduction == Reduction::none, mean = reduction == Reduction::mean;
        const double divisor = mean ? counted : 1;
        const Result result = cross_entropy<float>(
            x, labels, classes, none ? Values(size_t(samples), 1) : Values{1}, params, weights);
        Values expected = gradients;
        for (double& v : expected) v /= divisor;
        const std::string what = std::to_string(classes) + " " + to_string(params);
        expect_close(result.loss, none ? losses : Values{total / divisor},
                     {.relative = 3e-6, .absolute = 3e-6}, what);
        expect_close(result.counted, {counted}, {.relative = 1e-6}, what);
        expect_close(result.dlogits, expected, {.relative = 3e-6, .absolute = 1e-6 / divisor},
                     what);
      }
    }
  }
}

// -weight(label) x(label), for rows and numbers of samples of all sizes.
TEST(CrossEntropy, TakesLogProbabilitiesAsTheyAre) {
  for (const auto& [classes, samples] :
       {std::pair{1, 7}, {3, 70}, {10, 1500}, {33, 300}, {130, 70}, {520, 9}, {1000, 300}}) {
    const Values x = random_values(samples * classes, uint32_t(classes));
    Values weights = random_values(classes, 5);
    for (double& w : weights) w = std::abs(w) + 0.125;
    std::vector<int32_t> labels;
    for (int i = 0; i < samples; ++i) labels.push_back(i % 5 == 1 ? -100 : i * 997 % classes);
    for (const bool weighted : {false, true}) {
      Values losses, gradients(x.size(), 0.0);
      double total = 0, counted = 0;
      for (int i = 0; i < samples; ++i) {
        const int label = labels[size_t(i)];
        const double weight = label < 0 ? 0 : weighted ? weights[size_t(label)] : 1;
        const size_t at_label = size_t(i * classes + std::max(label, 0));
        losses.push_back(-weight * x[at_label]);
        gradients[at_label] = -weight;
        total += losses.back();
        counted += weight;
      }
      for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
        const CrossEntropyParams params{.reduction = reduction, .log_probabilities = true};
        const bool none = reduction == Reduction::none;
        const double divisor = reduction == Reduction::mean ? counted : 1;
        const Result result =
            cross_entropy<float>(x, labels, classes, none ? Values(size_t(samples), 1) : Values{1},
                                 params, weighted ? weights : Values());
        Values expected = gradients;
        for (double& v : expected) v /= divisor;
        const std::string what = std::to_string(classes) + " " + to_string(params);
        expect_close(result.loss, none ? losses : Values{total / divisor},
                     {.relative = 1e-6, .absolute = 1e-6}, what);
        expect_close(result.counted, {counted}, {.relative = 1e-6}, what);
        expect_close(result.dlogits, expected, {.relative = 1e-6}, what);
      }
    }
  }
}

TEST(CrossEntropy, StaysFiniteForLargeLogits) {
  // By hand: log(exp(1000) + exp(-1000)) + 1000 = 2000; softmax (1, 0), target (0, 1).
  const Result result = cross_entropy<float>({1000, -1000}, std::vector<int64_t>{1}, 2, {1}, {});
  EXPECT_EQ(result.loss, (Values{2000}));
  EXPECT_EQ(result.dlogits, (Values{1, -1}));
  // log_sum_exp is rounded to 6e-5 here, the gradient is not: softmax of (0, 1).
  const Result large =
      cross_entropy<float>({1000.25, 1001.25}, std::vector<int64_t>{0}, 2, {1}, {});
  expect_close(large.dlogits, {-0.731058579, 0.731058579}, {.relative = 1e-6}, "dlogits");
}

TEST(CrossEntropy, TakesAMaskedLogit) {
  const double inf = std::numeric_limits<double>::infinity();
  const Result result = cross_entropy<float>({0, -inf, 0}, std::vector<int64_t>{0}, 3, {1}, {});
  expect_close(result.loss, {std::log(2.0)}, {.relative = 1e-6}, "loss");
  expect_close(result.dlogits, {-0.5, 0, 0.5}, {.relative = 1e-6}, "dlogits");
}

TEST(CrossEntropy, IsZeroWhenNoSampleCounts) {
  for (const bool logs : {false, true}) {
    for (Reduction reduction : {Reduction::mean, Reduction::sum}) {
      const CrossEntropyParams params{
          .ignore_index = 7, .reduction = reduction, .log_probabilities = logs};
      const Result result =
          cross_entropy<float>({1, 2, 3, 4}, std::vector<int64_t>{7, 7}, 2, {1}, params);
      EXPECT_EQ(result.loss, (Values{0}));
      EXPECT_EQ(result.counted, (Values{0}));
      EXPECT_EQ(result.dlogits, (Values{0, 0, 0, 0}));
      const Result empty = cross_entropy<float>({}, std::vector<int64_t>{}, 2, {1}, params);
      EXPECT_EQ(empty.loss, (Values{0}));
    }
  }
}

TEST(CrossEntropy, ReadsNothingBeyondTheLogitsForALabelOutOfRange) {
  // Callers check the labels; the kernel answers with NaN for that sample alone.
  for (int64_t label : {int64_t(3), int64_t(-1), INT64_MAX, INT64_MIN}) {
    for (const bool logs : {false, true}) {
      const Result result =
          cross_entropy<float>({1, 2, 3, 1, 2, 3}, std::vector<int64_t>{label, 2}, 3, {1, 1},
                               {.reduction = Reduction::none, .log_probabilities = logs});
      EXPECT_TRUE(std::isnan(result.loss[0]));
      EXPECT_NEAR(result.loss[1], logs ? -3 : 0.407605964, 1e-6);
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_TRUE(std::isnan(result.dlogits[c]));
        EXPECT_FALSE(std::isnan(result.dlogits[c + 3]));
      }
    }
  }
}

TEST(CrossEntropy, GivesTheSameBitsForAnyNumberOfThreads) {
  const int64_t samples = 5000, classes = 10;
  const Values x = random_values(samples * classes, 2);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i % classes);
  expect_same_for_any_threads([&] {
    const Result r = cross_entropy<float>(x, labels, classes, {1}, {.label_smoothing = 0.1});
    return std::vector{r.loss, r.dlogits};
  });
}

}  // namespace
}  // namespace adret
