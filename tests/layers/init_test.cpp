// Initial values: fans, bounds, moments and repeatability.
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/init.h>
#include <adret/layers/linear.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments(const Tensor& x) {
  const std::vector<float> values = x.to_vector();
  Moments m{.low = values[0], .high = values[0]};
  for (const float v : values) {
    m.mean += v / double(values.size());
    m.low = std::min<double>(m.low, v);
    m.high = std::max<double>(m.high, v);
  }
  for (const float v : values) m.std += (v - m.mean) * (v - m.mean) / double(values.size());
  m.std = std::sqrt(m.std);
  return m;
}

// Within five standard errors: std / sqrt(n) for the mean, std / sqrt(2 n) for the deviation of a
// normal (a uniform's is smaller).
void expect_moments(const Tensor& x, double mean, double std) {
  const Moments m = moments(x);
  EXPECT_NEAR(m.mean, mean, 5 * std / std::sqrt(double(x.numel())));
  EXPECT_NEAR(m.std, std, 5 * std / std::sqrt(2.0 * double(x.numel())));
}

void expect_uniform(const Tensor& x, double bound) {
  expect_moments(x, 0, bound / std::sqrt(3.0));
  const Moments m = moments(x);
  EXPECT_GE(m.low, -bound);
  EXPECT_LT(m.high, bound);
  EXPECT_GT(m.high - m.low, 1.999 * bound);
}

// PyTorch's _calculate_fan_in_and_fan_out of the same weights in its layout.
TEST(Init, FansCountTheKernel) {
  const init::Fans linear = init::fans({10, 784});
  EXPECT_EQ(linear.in, 784);
  EXPECT_EQ(linear.out, 10);
  const init::Fans conv = init::fans({16, 5, 3, 4});  // 16 out, 4 in, 5x3
  EXPECT_EQ(conv.in, 60);
  EXPECT_EQ(conv.out, 240);
  expect_error<ShapeError>([] { return init::fans({3}); },
                           "[init] a weight (3,) has no fan; it takes at least two dimensions");
}

TEST(Init, FillsHaveTheirMoments) {
  const Tensor x = Tensor::empty({1000, 100});
  init::uniform_(x, -1, 3);
  expect_moments(x, 1, 4 / std::sqrt(12.0));
  init::normal_(x, 2, 0.5);
  expect_moments(x, 2, 0.5);
  init::constant_(x, 0.25);
  EXPECT_EQ(moments(x).low, 0.25);
  EXPECT_EQ(moments(x).high, 0.25);
}

TEST(Init, KaimingKeepsTheVariance) {
  const Tensor x = Tensor::empty({400, 5, 5, 10});  // fan_in 250, fan_out 10,000
  init::kaiming_uniform_(x);
  expect_uniform(x, std::sqrt(6.0 / 250));
  init::kaiming_normal_(x, {.fan = init::FanMode::out});
  expect_moments(x, 0, std::sqrt(2.0 / 10000));
  init::kaiming_normal_(x, {.gain = init::leaky_relu_gain(1)});
  expect_moments(x, 0, std::sqrt(1.0 / 250));
}

TEST(Init, XavierMeetsBothDirections) {
  const Tensor x = Tensor::empty({100, 1000});
  init::xavier_uniform_(x);
  expect_uniform(x, std::sqrt(6.0 / 1100));
  init::xavier_normal_(x, {.gain = init::tanh_gain});
  expect_moments(x, 0, 5.0 / 3.0 * std::sqrt(2.0 / 1100));
}

// torch.nn.Linear and Conv2d: kaiming_uniform_(a=sqrt(5)) is uniform within 1 / sqrt(fan_in).
TEST(Init, LayersStartAsPyTorchs) {
  const Linear fc(400, 1000);
  expect_uniform(fc.weight, 1 / 20.0);
  expect_moments(fc.bias, 0, 1 / (20 * std::sqrt(3.0)));
  const Conv2d conv(16, 256, {.kernel = 5});
  expect_uniform(conv.weight, 1 / 20.0);
  expect_moments(conv.bias, 0, 1 / (20 * std::sqrt(3.0)));
}

TEST(Init, TheSeedDecidesAndEachLayerDiffers) {
  random::manual_seed(5);
  const Linear a(4, 4), b(4, 4);
  random::manual_seed(5);
  const Linear again(4, 4);
  EXPECT_EQ(a.weight.value.to_vector(), again.weight.value.to_vector());
  EXPECT_NE(a.weight.value.to_vector(), b.weight.value.to_vector());
}

}  // namespace
}  // namespace adret
