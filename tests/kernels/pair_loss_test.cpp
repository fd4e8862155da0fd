// Losses of pairs against their formulas, and their gradients against differences of them.
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
using kernels::PairLoss;
using kernels::PairLossParams;
using Values = std::vector<double>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

constexpr PairLoss all_ops[] = {PairLoss::squared, PairLoss::absolute,   PairLoss::huber,
                                PairLoss::binary,  PairLoss::divergence, PairLoss::log_divergence};

double defined(const PairLossParams& params, double x, double t) {
  const double d = x - t, size = std::abs(d);
  switch (params.op) {
    case PairLoss::squared: return d * d;
    case PairLoss::absolute: return size;
    case PairLoss::huber:
      return size <= params.knee ? d * d / 2 : params.knee * (size - params.knee / 2);
    case PairLoss::binary: return t * std::log1p(std::exp(-x)) + (1 - t) * std::log1p(std::exp(x));
    case PairLoss::divergence: return t > 0 ? t * (std::log(t) - x) : 0;
    case PairLoss::log_divergence: return std::exp(t) * (t - x);
  }
  return nan;
}

// Predictions, and targets that are probabilities, as some losses want; none at a kink.
struct Pair {
  Values x, target;
  explicit Pair(int64_t n) : x(random_values(n, 1)), target(random_values(n, 2)) {
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = std::round(64 * x[i]) / 32;
      target[i] = (std::round(100 * std::abs(target[i])) + 0.5) / 128;
    }
  }
};

struct Result {
  Values loss, dx, dtarget;
};

template <class T>
Result pair_loss(const Pair& pair, const Values& dloss, const PairLossParams& params) {
  const int64_t n = int64_t(pair.x.size());
  const Shape shape{n}, loss_shape = dloss.size() == 1 ? Shape{} : shape;
  const Guarded<T> x(shape, pair.x), target(shape, pair.target), loss(loss_shape);
  const Guarded<T> gradient(loss_shape, dloss), dx(shape), dtarget(shape);
  run(kernels::PairLossForward{.x = x, .target = target, .loss = loss, .loss_params = params});
  run(kernels::PairLossBackward{.x = x,
                                .target = target,
                                .dloss = gradient,
                                .dx = dx,
                                .dtarget = dtarget,
                                .loss_params = params});
  EXPECT_TRUE(loss.guards_intact() && dx.guards_intact() && dtarget.guards_intact());
  return {loss.values(), dx.values(), dtarget.values()};
}

template <class T>
void expect_defined(int64_t n, double tolerance) {
  const Pair pair(n);
  for (const PairLoss op : all_ops) {
    const PairLossParams params{.op = op, .knee = 0.75, .divisor = 3};
    SCOPED_TRACE(std::string(to_string(op)) + " of " + std::to_string(n));
    Values losses, dloss(size_t(n), 0.0);
    double sum = 0;
    for (size_t i = 0; i < size_t(n); ++i) {
      losses.push_back(defined(params, pair.x[i], pair.target[i]) / 3);
      sum += losses.back();
      dloss[i] = 0.5 + double(i % 3);
    }
    const Result each = pair_loss<T>(pair, dloss, params);
    const Result total = pair_loss<T>(pair, {2}, params);
    EXPECT_NEAR(total.loss[0], sum, tolerance * (1 + std::abs(sum)));
    const double h = 1e-6;
    for (size_t i = 0; i < size_t(n); ++i) {
      const double x = pair.x[i], t = pair.target[i];
      const double dx = (defined(params, x + h, t) - defined(params, x - h, t)) / (6 * h);
      const double dt = (defined(params, x, t + h) - defined(params, x, t - h)) / (6 * h);
      ASSERT_NEAR(each.loss[i], losses[i], tolerance) << i;
      ASSERT_NEAR(each.dx[i], dloss[i] * dx, 10 * tolerance) << i;
      ASSERT_NEAR(each.dtarget[i], dloss[i] * dt, 10 * tolerance) << i;
      ASSERT_NEAR(total.dx[i], 2 * dx, 10 * tolerance) << i;
      ASSERT_NEAR(total.dtarget[i], 2 * dt, 10 * tolerance) << i;
    }
  }
}

TEST(PairLoss, IsTheFormulaAndItsSlope) {
  for (const int64_t n : {2, 3, 7, 64, 515, 20011}) {
    expect_defined<double>(n, 1e-8);
    expect_defined<float>(n, 2e-6);
  }
}

TEST(PairLoss, OfNothing) {
  for (const PairLoss op : all_ops) {
    const Guarded<float> x({0}, Values{}), target({0}, Values{}), loss(Shape{});
    const auto sum_of_nothing = [&](double divisor) {
      run(kernels::PairLossForward{
          .x = x, .target = target, .loss = loss, .loss_params = {.op = op, .divisor = divisor}});
      return loss.values()[0];
    };
    EXPECT_EQ(sum_of_nothing(1), 0);
    EXPECT_TRUE(std::isnan(sum_of_nothing(0))) << "the mean";
  }
}

// The gradients of what a call leaves out are not written.
TEST(PairLoss, WritesOneGradientAlone) {
  const Guarded<float> x({3}, {1, -2, 0.5}), target({3}, {0.5, 0.25, 0.5});
  const Guarded<float> dloss(Shape{}, {1}), dx({3}), dtarget({3});
  const PairLossParams params{.op = PairLoss::absolute};
  run(kernels::PairLossBackward{
      .x = x, .target = target, .dloss = dloss, .dx = dx, .loss_params = params});
  run(kernels::PairLossBackward{
      .x = x, .target = target, .dloss = dloss, .dtarget = dtarget, .loss_params = params});
  EXPECT_EQ(dx.values(), (Values{1, -1, 0}));
  EXPECT_EQ(dtarget.values(), (Values{-1, 1, 0}));
}

TEST(PairLoss, KeepsNaNAndInfinities) {
  for (const PairLoss op : all_ops) {
    SCOPED_TRACE(to_string(op));
    const Pair pair = [] {
      Pair result(2);
      result.x = {nan, infinity};
      result.target = {0.5, 0.5};
      return result;
    }();
    const Result result = pair_loss<float>(pair, {1, 1}, {.op = op});
    EXPECT_TRUE(std::isnan(result.loss[0]));
    EXPECT_TRUE(std::isinf(result.loss[1]));
    // The slopes of the last two do not depend on x.
    const bool is_linear = op == PairLoss::divergence || op == PairLoss::log_divergence;
    EXPECT_EQ(std::isnan(result.dx[0]), !is_linear);
  }
  const Result of_zero = pair_loss<float>(
      [] {
        Pair result(2);
        result.x = {-infinity, 3};
        result.target = {0, 0};
        return result;
      }(),
      {1, 1}, {.op = PairLoss::divergence});
  EXPECT_EQ(of_zero.loss, (Values{0, 0}));
}

}  // namespace
}  // namespace adret
