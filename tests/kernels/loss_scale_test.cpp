// Loss scaling on the device, and averages of weights, over arenas: by hand.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/arenas.h"
#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using kernels::SgdGroup;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();

// The scale and its counts, with what is changed by a step.
struct Scale {
  Tensor scale, counts = Tensor::zeros({2}, {.dtype = DType::i64});
  double lowest = 1, largest = 0x1p24;
  int64_t growth_interval = 2000;

  explicit Scale(float initial) : scale(Tensor::full({}, initial)) {}
  void update(Arenas& arenas) const {
    run(kernels::UpdateLossScale{.grads = arenas.grads,
                                 .segments = arenas.segments,
                                 .scale = scale,
                                 .counts = counts,
                                 .lowest = lowest,
                                 .largest = largest,
                                 .growth_interval = growth_interval});
  }
  float value() const { return scale.item(); }
  int64_t good() const { return counts.to_vector<int64_t>()[0]; }
  int64_t skipped() const { return counts.to_vector<int64_t>()[1]; }
};

void sgd(Arenas& arenas, const SgdGroup& group) {
  const auto* columns = reinterpret_cast<const double*>(&group);
  run(kernels::SgdStep{.values = arenas.values,
                       .grads = arenas.grads,
                       .momentum = arenas.first,
                       .masters = arenas.masters,
                       .segments = arenas.segments,
                       .groups = Tensor::from(std::span(columns, 4), {1, 4})});
}

const std::vector<DType> floats{DType::f32, DType::bf16, DType::f16, DType::f64};

TEST(UpdateLossScale, LetsFiniteGradientsThroughTimesTheInverseScale) {
  for (const DType dtype : floats) {
    Arenas arenas({{.value = {1, 2}, .dtype = dtype}, {.value = {3}, .active = false}});
    arenas.set(arenas.grads, 0, {1024, -512});
    arenas.set(arenas.grads, 1, {inf});  // left over: its parameter has no gradient
    const Scale scale(1024);
    scale.update(arenas);
    EXPECT_EQ(arenas.segment(0).active, 1) << dtype;
    EXPECT_EQ(arenas.segment(1).active, 0);
    EXPECT_EQ(arenas.segment(0).unscale, 0x1p-10);
    EXPECT_EQ(scale.value(), 1024);
    EXPECT_EQ(scale.good(), 1);
    EXPECT_EQ(scale.skipped(), 0);
    sgd(arenas, {0.5, 0, 0, 0});
    EXPECT_EQ(arenas.get(arenas.values, 0), (Values{0.5, 2.25})) << dtype;
  }
}

// In each dtype, at the first and last element of pieces of 16 bytes and of chunks, and of either
// kind.
TEST(UpdateLossScale, FindsEveryElementThatIsNotFinite) {
  for (const DType dtype : floats) {
    for (const double bad : {inf, -inf, double(NAN)}) {
      for (const size_t place : {0, 7, 8, 16383, 16384, 50'000}) {
        Arenas arenas({{.value = {1}}, {.value = Values(50'001, 1), .dtype = dtype}});
        Values grads(50'001, 60'000);
        grads[place] = bad;
        arenas.set(arenas.grads, 1, grads);
        const Scale scale(8);
        scale.update(arenas);
        ASSERT_EQ(arenas.segment(0).active, 0) << dtype << " " << bad << " at " << place;
        ASSERT_EQ(arenas.segment(1).active, 0);
        ASSERT_EQ(scale.value(), 4);
        ASSERT_EQ(scale.skipped(), 1);
      }
    }
  }
}

TEST(UpdateLossScale, TakesTheLargestNumbersAsFinite) {
  Arenas arenas({{.value = {0}, .dtype = DType::f32},
                 {.value = {0}, .dtype = DType::f16},
                 {.value = {0}, .dtype = DType::bf16},
                 {.value = {0}, .dtype = DType::f64},
                 {.value = {}, .dtype = DType::f32}});
  arenas.set(arenas.grads, 0, {double(std::numeric_limits<float>::max())});
  arenas.set(arenas.grads, 1, {-65504});
  arenas.set(arenas.grads, 2, {0x1.FEp127});
  arenas.set(arenas.grads, 3, {-std::numeric_limits<double>::max()});
  const Scale scale(1);
  scale.update(arenas);
  EXPECT_EQ(arenas.segment(0).active, 1);
  EXPECT_EQ(scale.skipped(), 0);
}

TEST(UpdateLossScale, SkipsAStepAndMakesTheNext) {
  Arenas arenas({{.value = {1}}, {.value = {2}, .dtype = DType::f16}});
  const Scale scale(4);
  arenas.set(arenas.grads, 0, {4});
  arenas.set(arenas.grads, 1, {inf});
  scale.update(arenas);
  sgd(arenas, {0.5, 0.5, 0, 0});
  EXPECT_EQ(arenas.get(arenas.values, 0), Values{1});
  EXPECT_EQ(arenas.get(arenas.first, 0), Values{0});
  EXPECT_EQ(arenas.get(arenas.masters, 1), Values{2});
  arenas.set(arenas.grads, 0, {2});  // of the loss times 2
  arenas.set(arenas.grads, 1, {4});
  scale.update(arenas);
  EXPECT_EQ(arenas.segment(0).unscale, 0.5);
  sgd(arenas, {0.5, 0.5, 0, 0});
  EXPECT_EQ(arenas.get(arenas.values, 0), Values{0.5});
  EXPECT_EQ(arenas.get(arenas.first, 0), Values{1});
  EXPECT_EQ(arenas.get(arenas.values, 1), Values{1});
  EXPECT_EQ(arenas.get(arenas.masters, 1), Values{1});
  EXPECT_EQ(scale.good(), 1);
  EXPECT_EQ(scale.skipped(), 1);
}

TEST(UpdateLossScale, HalvesAndDoublesWithinItsBounds) {
  Arenas arenas(std::vector<ArenaParameter>{{.value = {1}}});
  Scale scale(4);
  scale.lowest = 2;
  scale.largest = 8;
  scale.growth_interval = 3;
  std::vector<float> seen;
  // Five that overflow, ten that do not.
  for (int step = 0; step < 15; ++step) {
    arenas.set(arenas.grads, 0, {step < 5 ? inf : 1});
    scale.update(arenas);
    seen.push_back(scale.value());
  }
  EXPECT_EQ(seen, (std::vector<float>{2, 2, 2, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8, 8}));
  EXPECT_EQ(scale.skipped(), 5);
  EXPECT_EQ(scale.good(), 1);
  arenas.set(arenas.grads, 0, {NAN});
  scale.update(arenas);
  EXPECT_EQ(scale.good(), 0);
}

// A power of two comes out of every kernel bit for bit, where nothing is too small for the dtype.
TEST(UpdateLossScale, LeavesTheBitsOfStepsAndClippingAlone) {
  const Values start = random_values(3000, 1), grad = random_values(3000, 2);
  const auto after = [&](double scale) {
    Arenas arenas({{.value = start},
                   {.value = start, .dtype = DType::f64},
                   {.value = start, .dtype = DType::bf16},
                   {.value = start, .dtype = DType::f16}});
    arenas.set_unscale(1 / scale);
    Values scaled = grad;
    for (double& g : scaled) g = std::round(g * 128) / 128 * scale;
    const Tensor norm = Tensor::empty({}, {.dtype = DType::f64});
    std::vector<Values> results;
    for (int step = 0; step < 2; ++step) {
      for (size_t i = 0; i < 4; ++i) arenas.set(arenas.grads, i, scaled);
      run(kernels::ClipByValue{.grads = arenas.grads, .segments = arenas.segments, .limit = 0.75});
      run(kernels::GradientNorm{.grads = arenas.grads, .segments = arenas.segments, .norm = norm});
      results.push_back({norm.item<double>()});
      run(kernels::ClipByNorm{
          .grads = arenas.grads, .segments = arenas.segments, .norm = norm, .max_norm = 16});
      sgd(arenas, {0.1, 0.9, 1e-4, 1});
      const kernels::AdamGroup adam{0.01, 0.9, 0.999, 1e-8, 0.01, 1};
      const auto* columns = reinterpret_cast<const double*>(&adam);
      run(kernels::AdamStep{.values = arenas.values,
                            .grads = arenas.grads,
                            .first = arenas.first,
                            .second = arenas.second,
                            .masters = arenas.masters,
                            .steps = arenas.steps,
                            .segments = arenas.segments,
                            .groups = Tensor::from(std::span(columns, 6), {1, 6})});
    }
    for (size_t i = 0; i < 4; ++i) {
      for (const Tensor& arena : {arenas.values, arenas.first, arenas.second, arenas.masters}) {
        results.push_back(arenas.get(arena, i));
      }
    }
    return results;
  };
  const auto expected = after(1);
  EXPECT_NEAR(expected[0][0], std::sqrt(4 * 3000 * 0.28), 5);  // clamped to 0.75: below 1 / 3 each
  EXPECT_EQ(after(256), expected);
}

void average(Arenas& arenas, const Tensor& updates, double decay, bool warm_up,
             bool masters = true) {
  run(kernels::AverageWeights{.values = arenas.values,
                              .masters = masters ? TensorView(arenas.masters) : TensorView(),
                              .average = arenas.second,
                              .updates = updates,
                              .segments = arenas.segments,
                              .decay = decay,
                              .warm_up = warm_up});
}

TEST(AverageWeights, MovesEveryAverageTowardsItsWeight) {
  Arenas arenas({{.value = {8, -8}},
                 {.value = {4}, .active = false},
                 {.value = {}},
                 {.value = {2}, .dtype = DType::f64},
                 {.value = {1}, .dtype = DType::bf16},
                 {.value = {1}, .dtype = DType::f16}});
  arenas.set(arenas.masters, 4, {1 + 0x1p-10});  // what its value is rounded from
  const Tensor updates = Tensor::zeros({}, {.dtype = DType::i64});
  average(arenas, updates, 0.75, false);
  average(arenas, updates, 0.75, false);
  // 1 - 0.75^2 = 0.4375 of the way.
  EXPECT_EQ(arenas.get(arenas.second, 0), (Values{3.5, -3.5}));
  EXPECT_EQ(arenas.get(arenas.second, 1), Values{1.75});
  EXPECT_EQ(arenas.get(arenas.second, 3), Values{0.875});
  EXPECT_EQ(arenas.get(arenas.second, 4), Values{0.4375 * (1 + 0x1p-10)});
  EXPECT_EQ(arenas.get(arenas.second, 5), Values{0.4375});
  EXPECT_EQ(updates.item<int64_t>(), 2);
  average(arenas, updates, 0, false, false);  // now the values themselves
  EXPECT_EQ(arenas.get(arenas.second, 4), Values{1});
}

TEST(AverageWeights, WarmsUpAndTakesManyElements) {
  const Values weights(40'000, 1);
  Arenas arenas({{.value = weights}, {.value = weights, .dtype = DType::bf16}});
  const Tensor updates = Tensor::zeros({}, {.dtype = DType::i64});
  double expected = 0;
  for (int t = 0; t < 40; ++t) {
    average(arenas, updates, 0.75, true);
    const double d = std::min(0.75, (1.0 + t) / (10.0 + t));
    expected += (1 - d) * (1 - expected);
    for (size_t i : {0, 1}) {
      ASSERT_EQ(arenas.get(arenas.second, i),
                Values(weights.size(), arenas.get(arenas.second, i)[0]));
      ASSERT_NEAR(arenas.get(arenas.second, i)[0], expected, 4e-6) << t;
    }
  }
  EXPECT_EQ(updates.item<int64_t>(), 40);
}

}  // namespace
}  // namespace adret
