// Muon against a NumPy implementation of its steps.
#include <adret/core/error.h>
#include <adret/layers/module.h>
#include <adret/optim/muon.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using Values = std::vector<double>;

struct Matrix : Layer<Matrix> {
  Matrix(const Values& values, const Shape& shape) : shape(shape), start(values) {}
  const Shape shape;
  const Values start;
  Parameter& w = parameter("w", Tensor::from(start, shape));
};

// The expected numbers come from, in NumPy and f64,
//   for t in range(3):
//       g = np.cos(t + 0.7 * np.arange(6)).reshape(w.shape)
//       m = mu * m + g
//       d = g + mu * m if nesterov else m
//       x = d / (np.linalg.norm(d) + 1e-7)          # transposed if it has more rows than columns
//       for _ in range(iterations):
//           s = x @ x.T
//           x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
//       scale = 1 - lr * weight_decay
//       if normalize: scale *= np.sqrt(len(w)) / np.linalg.norm(w)
//       w = scale * w - lr * x
Values after_three_steps(Matrix& model, Optimizer& optimizer) {
  for (int t = 0; t < 3; ++t) {
    Values gradient;
    for (int i = 0; i < 6; ++i) gradient.push_back(std::cos(t + 0.7 * i));
    model.w.value.set_grad(Tensor::from(gradient, model.shape).to(model.w.value.dtype()));
    optimizer.step();
  }
  return model.w.exact().to(DType::f64).to_vector<double>();
}

void expect_near(const Values& got, const Values& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << i;
}

const Values wide_start = {0.5, -1, 2, 1.5, 0.25, -0.75};
const Values wide_result = {0.3212639337802012, -0.9009163745393296, 2.093325061162978,
                            1.525540383033383,  0.3807078437500403,  -0.5972152171404301};

TEST(Muon, FollowsNumPyOnAWideMatrix) {
  Matrix model(wide_start, {2, 3});
  Muon optimizer(model, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2});
  expect_near(after_three_steps(model, optimizer), wide_result, 1e-9);
}

TEST(Muon, FollowsNumPyOnATallMatrixOfNormalizedWeights) {
  Matrix model({0.5, -1, 2, 1.5, 0.25, -0.75}, {3, 2});
  Muon optimizer(
      model, {.lr = 0.05, .momentum = 0.6, .nesterov = false, .normalize = true, .iterations = 3});
  expect_near(after_three_steps(model, optimizer),
              {0.227089508033125, -0.5712413548484124, 1.2032936320735717, 1.0095172081109287,
               0.22439769035648455, -0.4533748147571708},
              1e-9);
}

TEST(Muon, TakesAConvolutionsWeightAsAMatrixOfItsOutputs) {
  Matrix model(wide_start, {2, 1, 3, 1});
  Muon optimizer(model, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2});
  expect_near(after_three_steps(model, optimizer), wide_result, 1e-9);
}

TEST(Muon, ComputesInTheParametersDtype) {
  Matrix model(wide_start, {2, 3});
  model.to(DType::f32);
  Muon optimizer(model, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.2});
  // Five iterations magnify a rounding of the smaller singular value by up to 3.4^5.
  expect_near(after_three_steps(model, optimizer), wide_result, 1e-4);
}

TEST(Muon, LeavesAParameterWithoutGradientAlone) {
  Matrix model(wide_start, {2, 3});
  Muon optimizer(model, {.lr = 0.1, .weight_decay = 0.2, .normalize = true});
  optimizer.step();
  EXPECT_EQ(model.w.value.to_vector<double>(), wide_start);
}

TEST(Muon, GivesUpdatesOfSingularValuesNearOne) {
  // A gradient of rank two with singular values 3 and 0.3: the update's come near to 1.
  Matrix model(Values(8, 0), {2, 4});
  Muon optimizer(model, {.lr = 1, .momentum = 0, .nesterov = false});
  model.w.value.set_grad(Tensor::from(Values{3, 0, 0, 0, 0, 0.3, 0, 0}, {2, 4}));
  optimizer.step();
  const Values w = model.w.value.to_vector<double>();
  for (size_t i = 0; i < w.size(); ++i) {
    if (i == 0 || i == 5) {
      EXPECT_GT(-w[i], 0.65) << i;
      EXPECT_LT(-w[i], 1.25) << i;
    } else {
      EXPECT_NEAR(w[i], 0, 1e-12) << i;
    }
  }
}

TEST(Muon, GoesOnFromSavedState) {
  Matrix one(wide_start, {2, 3}), other(wide_start, {2, 3});
  const MuonOptions options{.lr = 0.1, .momentum = 0.9};
  Muon first(one, options);
  const Values straight = after_three_steps(one, first);
  after_three_steps(one, first);
  Matrix resumed(straight, {2, 3});
  Muon second(other, options);
  after_three_steps(other, second);
  Muon third(resumed, {.lr = 0.5});
  third.load_state(second.state());
  EXPECT_EQ(after_three_steps(resumed, third), one.w.value.to_vector<double>());
}

TEST(Muon, RefusesWhatItCannotOrthogonalize) {
  Matrix bias({1, 2, 3}, {3}), matrix(wide_start, {2, 3});
  test::expect_error<Error>(
      [&] { Muon optimizer(bias, {}); },
      "[muon] the parameter \"w\" (3,) is no matrix; give biases and norms to another optimizer, "
      "such as Sgd");
  test::expect_error<Error>([&] { Muon optimizer(matrix, {.iterations = 0}); },
                            "[muon] iterations is 0; it must lie in 1..20");
  test::expect_error<Error>([&] { Muon optimizer(matrix, {.lr = -1}); },
                            "[muon] lr is -1; it must be finite and at least 0");
}

}  // namespace
}  // namespace adret
