// Means weighted by samples, hits among the top k, the confusion matrix; expected values by hand.
#include <adret/core/error.h>
#include <adret/train/metrics.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

Tensor labels(const std::vector<int32_t>& values) {
  return Tensor::from(values, {int64_t(values.size())});
}

TEST(Mean, IsWeightedBySamples) {
  Mean mean;
  EXPECT_EQ(mean.value(), 0);
  mean.add(10, 2);
  mean.add(9, 1);
  EXPECT_NEAR(mean.value(), 29.0 / 3, 1e-12);
  EXPECT_EQ(mean.samples(), 3);
}

const Tensor three_by_four = Tensor::from<float>({0.1f, 0.9f, 0.3f, 0.2f,   // order 1 2 3 0
                                                  4.0f, -1.0f, 3.0f, 2.0f,  // order 0 2 3 1
                                                  0.5f, 0.5f, 0.5f, 0.5f},  // equal: order 0 1 2 3
                                                 {3, 4});

TEST(TopK, CountsLabelsAmongTheLargestLogits) {
  EXPECT_EQ(top_k_hits(three_by_four, labels({1, 2, 0})).correct, 2);
  EXPECT_EQ(top_k_hits(three_by_four, labels({1, 2, 1})).correct, 1);
  EXPECT_EQ(top_k_hits(three_by_four, labels({2, 2, 1}), 2).correct, 3);
  EXPECT_EQ(top_k_hits(three_by_four, labels({0, 1, 3}), 3).correct, 0);
  EXPECT_EQ(top_k_hits(three_by_four, labels({0, 1, 3}), 4).correct, 3);
  EXPECT_EQ(top_k_hits(three_by_four, labels({0, 1, 3}), 9).samples, 3);
}

TEST(TopK, TakesEveryDTypeOfLogitsAndLabels) {
  const Tensor wide = labels({1, 2, 0}).to(DType::i64);
  EXPECT_EQ(top_k_hits(three_by_four.to(DType::bf16), wide).correct, 2);
  EXPECT_EQ(top_k_hits(three_by_four.to(DType::f64), wide).correct, 2);
}

TEST(TopK, TakesTheLargestShareForTheLabel) {
  const Tensor shares =
      Tensor::from<float>({0, 0.75f, 0.25f, 0, 0.1f, 0.1f, 0.8f, 0, 1, 0, 0, 0}, {3, 4});
  for (const DType dtype : {DType::f32, DType::bf16}) {
    EXPECT_EQ(top_k_hits(three_by_four, shares.to(dtype)).correct,
              top_k_hits(three_by_four, labels({1, 2, 0})).correct);
  }
  EXPECT_EQ(top_k_hits(three_by_four, shares, 4).correct, 3);
}

TEST(TopK, IgnoresNegativeLabelsAndMissesNan) {
  const Hits hits = top_k_hits(three_by_four, labels({-100, 0, -1}));
  EXPECT_EQ(hits.correct, 1);
  EXPECT_EQ(hits.samples, 1);
  EXPECT_EQ(hits.rate(), 1);
  EXPECT_EQ(Hits().rate(), 0);
  EXPECT_EQ(top_k_hits(Tensor::from<float>({NAN, 1}, {1, 2}), labels({0}), 2).correct, 0);
  EXPECT_EQ(top_k_hits(Tensor::from<float>({NAN, 1}, {1, 2}), labels({1})).correct, 1);
}

TEST(TopK, RefusesWhatDoesNotFit) {
  EXPECT_EQ(
      thrown<ShapeError>([] {
        top_k_hits(three_by_four, labels({1, 2}));
      }),
      "[top_k_hits] wants logits (N, C) and integer labels (N), or shares of the classes (N, C), "
      "got (3, 4) f32 cpu and (2,) i32 cpu");
  EXPECT_THAT(thrown<ShapeError>([] { top_k_hits(three_by_four, Tensor::zeros({3})); }),
              HasSubstr("(3,) f32"));
  EXPECT_EQ(thrown<ShapeError>([] {
              top_k_hits(three_by_four, labels({1, 4, 0}));
            }),
            "[top_k_hits] label 4 of sample 1 is outside 0..3 (4 classes)");
  EXPECT_THAT(thrown<Error>([] {
                top_k_hits(three_by_four, labels({1, 1, 1}), 0);
              }),
              HasSubstr("got 0"));
}

TEST(ConfusionMatrix, CountsEachLabelAgainstEachPrediction) {
  ConfusionMatrix matrix(4);
  matrix.add(three_by_four, labels({1, 2, 0}));  // taken for 1, 0, 0
  matrix.add(three_by_four, labels({1, 0, -1}));
  EXPECT_EQ(matrix.count(1, 1), 2);
  EXPECT_EQ(matrix.count(2, 0), 1);
  EXPECT_EQ(matrix.count(0, 0), 2);
  EXPECT_EQ(matrix.count(3, 3), 0);
  EXPECT_DOUBLE_EQ(matrix.accuracy(), 0.8);
  EXPECT_DOUBLE_EQ(matrix.recall(2), 0);
  EXPECT_DOUBLE_EQ(matrix.precision(0), 2.0 / 3);
  EXPECT_DOUBLE_EQ(matrix.recall(3), 0);
  EXPECT_EQ(to_string(matrix),
            "label \\ predicted      0      1      2      3\n"
            "                0      2      0      0      0\n"
            "                1      0      2      0      0\n"
            "                2      1      0      0      0\n"
            "                3      0      0      0      0");
  EXPECT_EQ(thrown<ShapeError>([&] {
              matrix.add(Tensor::zeros({1, 3}), labels({0}));
            }),
            "[ConfusionMatrix] has 4 classes, got logits (1, 3)");
  EXPECT_THAT(thrown<Error>([] { ConfusionMatrix(0); }), HasSubstr("wants 1 class or more, got 0"));
}

}  // namespace
}  // namespace adret
