// Clipping of gradients, and norms that are not finite.
#include <adret/core/error.h>
#include <adret/optim/clip.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<float>;

struct Vectors : Layer<Vectors> {
  Parameter& a = parameter("a", Tensor::zeros({2}));
  Parameter& b = parameter("b", Tensor::zeros({1}));
};

TEST(ClipNorm, ScalesAllGradientsTogether) {
  Vectors model;
  Sgd optimizer(model, {.lr = 1});
  EXPECT_EQ(optimizer.clip_norm(1).item<double>(), 0);  // no gradient yet
  model.a.value.set_grad(Tensor::from({2.f, 3.f}, {2}));
  model.b.value.set_grad(Tensor::from({6.f}, {1}));
  EXPECT_DOUBLE_EQ(optimizer.clip_norm(14).item<double>(), 7);  // sqrt(4 + 9 + 36)
  EXPECT_EQ(model.a.value.grad().to_vector(), (Values{2, 3}));
  EXPECT_DOUBLE_EQ(optimizer.clip_norm(3.5).item<double>(), 7);
  EXPECT_EQ(model.a.value.grad().to_vector(), (Values{1, 1.5}));
  EXPECT_EQ(model.b.value.grad().to_vector(), (Values{3}));
}

TEST(ClipNorm, OfAnInfiniteLimitIsTheNormAlone) {
  Vectors model;
  Sgd optimizer(model, {.lr = 1});
  model.a.value.set_grad(Tensor::from({2.f, 3.f}, {2}));
  model.b.value.set_grad(Tensor::from({6.f}, {1}));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_DOUBLE_EQ(optimizer.clip_norm(infinity).item<double>(), 7);
  EXPECT_EQ(model.a.value.grad().to_vector(), (Values{2, 3}));
  expect_error<Error>([&] { return optimizer.clip_norm(-infinity); }, "[clip_norm] max_norm is");
}

TEST(ClipNorm, LeavesGradientsAloneWhenTheNormIsNotFinite) {
  Vectors model;
  Sgd optimizer(model, {.lr = 1});
  const float infinity = std::numeric_limits<float>::infinity();
  model.a.value.set_grad(Tensor::from({2.f, infinity}, {2}));
  model.b.value.set_grad(Tensor::from({6.f}, {1}));
  EXPECT_TRUE(std::isinf(optimizer.clip_norm(1).item<double>()));
  EXPECT_EQ(model.a.value.grad().to_vector(), (Values{2, infinity}));
  EXPECT_EQ(model.b.value.grad().to_vector(), (Values{6}));
  expect_error<Error>([&] { return optimizer.clip_norm(1, {.error_if_nonfinite = true}); },
                      "[clip_norm] the norm of the gradients is inf, so they cannot be scaled and "
                      "are untouched: the gradient of \"a\" (2,) is not finite; skip this step");
  EXPECT_EQ(model.b.value.grad().to_vector(), (Values{6}));
  expect_error<Error>([&] { return optimizer.clip_norm(-1); }, "[clip_norm] max_norm is -1");
}

// The squares are summed in f64, so those of f32 do not overflow, and of f64 they may.
TEST(ClipNorm, TellsAnOverflowOfTheNormFromGradientsThatAreNotFinite) {
  Vectors model;
  {
    Sgd optimizer(model, {.lr = 1});
    model.a.value.set_grad(Tensor::from({3e38f, 0.f}, {2}));
    model.b.value.set_grad(Tensor::from({-3e38f}, {1}));
    EXPECT_GT(optimizer.clip_norm(1, {.error_if_nonfinite = true}).item<double>(), 4e38);
    EXPECT_FLOAT_EQ(model.a.value.grad().to_vector()[0], std::sqrt(0.5f));
  }
  model.to(DType::f64);
  Sgd optimizer(model, {.lr = 1});
  model.a.value.set_grad(Tensor::from<double>({2, -1e200}, {2}));
  model.b.value.set_grad(Tensor::from<double>({1e155}, {1}));
  expect_error<Error>(
      [&] { return optimizer.clip_norm(1, {.error_if_nonfinite = true}); },
      "[clip_norm] the norm of the gradients is inf, so they cannot be scaled and "
      "are untouched: every gradient is finite, up to 1e+200 in \"a\" (2,), but the "
      "sum of their squares is too large for f64; make the loss smaller, or limit "
      "the elements with clip_value before");
  EXPECT_EQ(model.b.value.grad().item<double>(), 1e155);
}

// An optimizer without gradients takes no part.
TEST(ClipNorm, OfSeveralOptimizersIsOfAllGradients) {
  Vectors model;
  using Group = ParameterGroup<SgdOptions>;
  Sgd first(std::vector<Group>{{{model.a.shared_from_this()}, {.lr = 1}}}),
      second(std::vector<Group>{{{model.b.shared_from_this()}, {.lr = 1}}});
  EXPECT_EQ(clip_norm({&first, &second}, 1).item<double>(), 0);
  model.a.value.set_grad(Tensor::from({2.f, 3.f}, {2}));
  EXPECT_DOUBLE_EQ(clip_norm({&second, &first}, 14).item<double>(), std::sqrt(13));
  model.b.value.set_grad(Tensor::from({6.f}, {1}));
  EXPECT_DOUBLE_EQ(clip_norm({&first, &second}, 3.5).item<double>(), 7);
  EXPECT_EQ(model.a.value.grad().to_vector(), (Values{1, 1.5}));
  EXPECT_EQ(model.b.value.grad().to_vector(), (Values{3}));
  model.b.value.set_grad(Tensor::from({NAN}, {1}));
  expect_error<Error>(
      [&] {
        return clip_norm({&first, &second}, 1, {.error_if_nonfinite = true});
      },
      "the gradient of \"b\" (1,) is not finite");
  expect_error<Error>([&] { return clip_norm({}, 1); }, "[clip_norm] the list of optimizers");
}

TEST(ClipValue, ClampsEachElement) {
  Vectors model;
  Sgd optimizer(model, {.lr = 1});
  model.a.value.set_grad(Tensor::from({-2.f, 0.5f}, {2}));
  optimizer.clip_value(1);
  EXPECT_EQ(model.a.value.grad().to_vector(), (Values{-1, 0.5}));
  EXPECT_FALSE(model.b.value.grad().defined());
  expect_error<Error>([&] { return optimizer.clip_value(-1), 0; }, "[clip_value] limit is -1");
}

}  // namespace
}  // namespace adret
