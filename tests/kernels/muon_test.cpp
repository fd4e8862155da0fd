// Muon's two kernels, by hand.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "tests/support/close.h"

namespace adret {
namespace {

using namespace test;
using kernels::MuonGroup;
using kernels::Segment;
using Values = std::vector<double>;

Tensor segment_row(bool active, double unscale = 1) {
  const Segment segment{.active = active, .unscale = unscale};
  const auto* words = reinterpret_cast<const int64_t*>(&segment);
  return Tensor::from(std::span(words, kernels::segment_columns), {kernels::segment_columns});
}
Tensor group_row(const MuonGroup& group) {
  return Tensor::from(
      {group.lr, group.momentum, group.nesterov, group.weight_decay, group.normalize}, {5});
}
Values doubles(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

struct Direction {
  Tensor momentum, direction;
};
Direction direction(const Tensor& grad, const Tensor& momentum, const MuonGroup& group,
                    bool active = true, double unscale = 1) {
  Direction result{momentum.clone(), Tensor::empty(grad.shape(), {.dtype = grad.dtype()})};
  run(kernels::MuonDirection{.grad = grad,
                             .momentum = result.momentum,
                             .segment = segment_row(active, unscale),
                             .group = group_row(group),
                             .direction = result.direction});
  return result;
}

TEST(MuonDirection, IsTheNormalizedMomentum) {
  const Tensor grad = Tensor::from({1.f, 2.f}, {1, 2}), momentum = Tensor::from({4.f, 4.f}, {1, 2});
  // 0.5 * 4 + (1, 2) = (3, 4), of norm 5.
  const auto plain = direction(grad, momentum, {.momentum = 0.5});
  EXPECT_EQ(doubles(plain.momentum), (Values{3, 4}));
  expect_close(doubles(plain.direction), {0.6, 0.8}, {1e-6}, "direction");
  // (1, 2) + 0.5 * (3, 4) = (2.5, 4)
  const auto nesterov = direction(grad, momentum, {.momentum = 0.5, .nesterov = 1});
  EXPECT_EQ(doubles(nesterov.momentum), (Values{3, 4}));
  const double norm = std::hypot(2.5, 4);
  expect_close(doubles(nesterov.direction), {2.5 / norm, 4 / norm}, {1e-6}, "nesterov");
}

TEST(MuonDirection, UndoesTheLossScale) {
  const Tensor grad = Tensor::from({8.f, 16.f}, {1, 2}),
               momentum = Tensor::from({4.f, 4.f}, {1, 2});
  for (const double nesterov : {0.0, 1.0}) {
    const MuonGroup group{.momentum = 0.5, .nesterov = nesterov};
    const auto scaled = direction(grad, momentum, group, true, 0.125),
               plain = direction(Tensor::from({1.f, 2.f}, {1, 2}), momentum, group);
    EXPECT_EQ(doubles(scaled.momentum), doubles(plain.momentum));
    EXPECT_EQ(doubles(scaled.direction), doubles(plain.direction));
  }
}

TEST(MuonDirection, TakesSixteenBitsAndManyElements) {
  constexpr int64_t n = 300000;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f64}) {
    const Tensor grad = Tensor::full({3, n / 3}, 0.5, {.dtype = dtype});
    const Tensor momentum =
        Tensor::zeros({3, n / 3}, {.dtype = dtype == DType::f64 ? DType::f64 : DType::f32});
    const auto result = direction(grad, momentum, {.momentum = 0.9});
    const double wanted = 1 / std::sqrt(double(n));
    for (const double value : doubles(result.direction)) ASSERT_NEAR(value, wanted, wanted / 200);
    for (const double value : doubles(result.momentum)) ASSERT_EQ(value, 0.5);
  }
}

TEST(MuonDirection, OfAnInactiveParameterIsZero) {
  const Tensor grad = Tensor::from({1.f, 2.f}, {1, 2}), momentum = Tensor::from({4.f, 4.f}, {1, 2});
  const auto result = direction(grad, momentum, {.momentum = 0.5}, false);
  EXPECT_EQ(doubles(result.momentum), (Values{4, 4}));
  EXPECT_EQ(doubles(result.direction), (Values{0, 0}));
}

TEST(MuonDirection, OfZeroIsZero) {
  const Tensor zero = Tensor::zeros({2, 2});
  EXPECT_EQ(doubles(direction(zero, zero, {.momentum = 0.5}).direction), (Values{0, 0, 0, 0}));
}

struct Weights {
  Tensor value, master;
};
void step(const Weights& weights, const Tensor& update, const MuonGroup& group,
          bool active = true) {
  run(kernels::MuonStep{
      .value = weights.value,
      .master = weights.master.defined() ? TensorView(weights.master) : TensorView(),
      .update = update,
      .segment = segment_row(active),
      .group = group_row(group)});
}

TEST(MuonStep, DecaysNormalizesAndSubtracts) {
  const Tensor update = Tensor::from({1.f, -1.f}, {2, 1});
  Weights w{Tensor::from({3.f, 4.f}, {2, 1}), {}};
  step(w, update, {.lr = 0.5, .weight_decay = 0.2});  // 0.9 * (3, 4) - 0.5 * (1, -1)
  expect_close(doubles(w.value), {2.2, 4.1}, {1e-6}, "decay");
  w = {Tensor::from({3.f, 4.f}, {2, 1}), {}};
  step(w, update, {.lr = 0.5, .normalize = 1});  // sqrt(2) / 5 * (3, 4) - 0.5 * (1, -1)
  const double scale = std::sqrt(2.0) / 5;
  expect_close(doubles(w.value), {3 * scale - 0.5, 4 * scale + 0.5}, {1e-6}, "normalize");
  w = {Tensor::from({3.f, 4.f}, {2, 1}), {}};
  step(w, update, {.lr = 0.5, .weight_decay = 0.2, .normalize = 1}, false);
  EXPECT_EQ(doubles(w.value), (Values{3, 4}));
  w = {Tensor::zeros({2, 1}), {}};
  step(w, update, {.lr = 0.5, .normalize = 1});
  expect_close(doubles(w.value), {-0.5, 0.5}, {1e-6}, "zero weights");
}

TEST(MuonStep, RoundsTheMasterIntoTheValue) {
  const Tensor value = Tensor::from({1.f, 2.f}, {2, 1}).to(DType::bf16);
  const Weights w{value, Tensor::from({1.001f, 2.002f}, {2, 1})};
  const Tensor update = Tensor::from({1.f, 1.f}, {2, 1}).to(DType::bf16);
  step(w, update, {.lr = 0.0009765625});  // 2^-10: less than half a unit of the values
  expect_close(doubles(w.master), {1.001 - 0.0009765625, 2.002 - 0.0009765625}, {1e-6}, "master");
  EXPECT_EQ(doubles(w.value), (Values{1, 2}));
}

}  // namespace
}  // namespace adret
