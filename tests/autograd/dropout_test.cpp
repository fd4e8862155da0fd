// Dropout: identity, masks, scale, derivatives and refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/core/random.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

TEST(Dropout, IsTheIdentityInEvaluationAndForProbabilityZero) {
  const Tensor x = variable({3, 4});
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
  EXPECT_TRUE(dropout(x, 0, true).is_same(x));
}

TEST(Dropout, OfProbabilityOneIsZeroWithAZeroGradient) {
  const Tensor x = leaf({1, -2, std::numeric_limits<double>::infinity()});
  const Tensor y = dropout(x, 1, true);
  expect_values(y, {3}, {0, 0, 0});
  expect_values(grad({sum(y)}, {x})[0], {3}, {0, 0, 0});
}

TEST(Dropout, ScalesWhatItKeepsAndUsesTheSameMaskBackwards) {
  random::manual_seed(1);
  for (const int64_t batch : {10, 64, 7}) {
    Tensor x = Tensor::ones({batch, 50});
    x.set_requires_grad(true);
    const Tensor y = dropout(x, 0.2, true);
    const std::vector<float> kept = y.to_vector();
    for (const float value : kept) EXPECT_TRUE(value == 0 || value == 1.25f) << value;
    // 4 standard deviations of the share that is dropped.
    const double share = double(std::ranges::count(kept, 0.0f)) / double(kept.size());
    EXPECT_NEAR(share, 0.2, 4 * std::sqrt(0.2 * 0.8 / double(kept.size())));
    EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector(), kept);
  }
}

TEST(Dropout, DrawsAnotherMaskEachCallAndTheSameAfterSeeding) {
  const Tensor x = Tensor::ones({100});
  random::manual_seed(3);
  const std::vector<float> first = dropout(x, 0.5, true).to_vector();
  EXPECT_NE(dropout(x, 0.5, true).to_vector(), first);
  random::manual_seed(3);
  EXPECT_EQ(dropout(x, 0.5, true).to_vector(), first);
}

TEST(Dropout, HasDerivativesForAFixedMask) {
  const auto function = [](const Inputs& in) {
    random::manual_seed(5);
    return dropout(in[0], 0.4, true);
  };
  expect_gradients(function, {variable({3, 4})});
  expect_gradients(function, {variable({0, 4})});
}

// Of x (N, ...) of ones the values, which must be the same within a group of the elements.
std::vector<float> of_groups(const Tensor& y, int64_t groups, int64_t (*group_of)(int64_t)) {
  const std::vector<float> values = y.to_vector();
  std::vector<float> found(size_t(groups), -1);
  for (size_t i = 0; i < values.size(); ++i) {
    float& group = found[size_t(group_of(int64_t(i)))];
    EXPECT_TRUE(group == -1 || group == values[i]) << i;
    group = values[i];
  }
  return found;
}

TEST(Dropout, OfChannelsAndOfPathsIsOneNumberForEach) {
  random::manual_seed(2);
  Tensor x = Tensor::ones({40, 3, 2, 5});
  x.set_requires_grad(true);
  const Tensor channels = dropout2d(x, 0.4, true), paths = drop_path(x, 0.2, true);
  const auto of_channels = of_groups(channels, 200, [](int64_t i) { return i / 30 * 5 + i % 5; });
  const auto of_paths = of_groups(paths, 40, [](int64_t i) { return i / 30; });
  const auto dropped = [](const std::vector<float>& values, float kept) {
    for (const float value : values) EXPECT_TRUE(value == 0 || value == kept) << value;
    return double(std::ranges::count(values, 0.0f)) / double(values.size());
  };
  // 4 standard deviations of the shares.
  EXPECT_NEAR(dropped(of_channels, float(1 / 0.6)), 0.4, 4 * std::sqrt(0.4 * 0.6 / 200));
  EXPECT_NEAR(dropped(of_paths, 1.25f), 0.2, 4 * std::sqrt(0.2 * 0.8 / 40));
  EXPECT_EQ(grad({sum(channels)}, {x})[0].to_vector(), channels.to_vector());
  EXPECT_EQ(grad({sum(paths)}, {x})[0].to_vector(), paths.to_vector());
  EXPECT_TRUE(dropout2d(x, 0.4, false).is_same(x));
  EXPECT_TRUE(drop_path(x, 0, true).is_same(x));
}

// Infinity and NaN times 0 are NaN.
TEST(Dropout, OfChannelsAndOfPathsDropsWhatIsNotFinite) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = NAN;
  for (const bool of_paths : {true, false}) {
    const Tensor x = leaf({inf, nan, -inf, inf, nan, inf, 2, 2}, {8, 1, 1});
    for (const double p : {0.5, 1.0}) {
      const Tensor y = of_paths ? drop_path(x, p, true) : dropout2d(x, p, true);
      const std::vector<double> slopes = grad({sum(y)}, {x})[0].to_vector<double>();
      const std::vector<double> in = x.to_vector<double>(), out = y.to_vector<double>();
      for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_TRUE(slopes[i] == 0 || (p < 1 && slopes[i] == 2)) << slopes[i];
        EXPECT_TRUE(slopes[i] != 0 || out[i] == 0) << out[i];
        EXPECT_TRUE(slopes[i] == 0 || std::isnan(in[i]) || out[i] == 2 * in[i]) << out[i];
      }
    }
  }
}

// torch.alpha_dropout(torch.ones(50).double(), 0.5, True).unique() are the values below.
TEST(Dropout, OfSeluKeepsMeanAndVariance) {
  random::manual_seed(3);
  const int64_t n = 40000;
  const Tensor x = randn({n, 1}, {.dtype = DType::f64});
  for (const double p : {0.2, 0.5}) {
    for (const auto call : {alpha_dropout, feature_alpha_dropout}) {
      const Tensor y = call(x, p, true);
      // 5 standard deviations; the fourth moment is at most 6.
      EXPECT_NEAR(mean(y).item<double>(), 0, 5 / std::sqrt(double(n)));
      EXPECT_NEAR(mean(square(y)).item<double>(), 1, 5 * std::sqrt(5 / double(n)));
    }
  }
  const std::vector<float> of_ones = alpha_dropout(Tensor::ones({50, 1}), 0.5, true).to_vector();
  for (const float value : of_ones) {
    EXPECT_NEAR(value, value > 0 ? 1.6655988251839635 : -0.7791939305180315, 1e-6);
  }
  EXPECT_EQ(alpha_dropout(x, 1, true).to_vector<double>(), std::vector<double>(size_t(n), 0));
  EXPECT_TRUE(alpha_dropout(x, 0, true).is_same(x));
  EXPECT_TRUE(feature_alpha_dropout(x, 0.5, false).is_same(x));
}

TEST(Dropout, OfSeluHasDerivativesForAFixedMask) {
  const auto elements = [](const std::vector<Tensor>& in) {
    random::manual_seed(5);
    return alpha_dropout(in[0], 0.4, true);
  };
  const auto channels = [](const std::vector<Tensor>& in) {
    random::manual_seed(5);
    return feature_alpha_dropout(in[0], 0.4, true);
  };
  expect_gradients(elements, {variable({3, 4})});
  expect_gradients(channels, {variable({3, 2, 4})});
}

TEST(Dropout, WantsAProbability) {
  const Tensor x = Tensor::ones({2});
  expect_error<ShapeError>([&] { return dropout(x, 1.5, true); },
                           "[dropout] p is 1.5, wanted a probability in 0..1");
  expect_error<ShapeError>([&] { return dropout(x, -0.1, false); }, "[dropout] p is -0.1");
  expect_error<ShapeError>([&] { return dropout(x, std::nan(""), true); }, "[dropout] p is nan");
}

}  // namespace
}  // namespace adret
