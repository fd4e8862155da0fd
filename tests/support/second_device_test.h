// What tests of Device::cuda() share: the device, with the CPU beside it.
#pragma once

#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/mirror.h"

namespace adret::test {

inline constexpr Device second = Device::cuda();

// On the GPU with ADRET_TEST_DEVICE=cuda, else on the shadow device. What lies on the CPU is
// computed on the CPU.
struct OnSecondDevice : testing::Test {
  SecondDevice device;
  MirrorPause pause;
};

// The largest difference, relative to the largest magnitude of `expected`.
inline double relative_difference(const std::vector<double>& actual,
                                  const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double scale = 0, difference = 0;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    scale = std::max(scale, std::abs(expected[i]));
    const double d = std::abs(actual[i] - expected[i]);
    difference = std::isnan(d) ? HUGE_VAL : std::max(difference, d);
  }
  return difference == 0 ? 0 : difference / scale;
}

inline std::vector<double> values_of(const Tensor& tensor) {
  return tensor.to(Device::cpu()).to(DType::f64).to_vector<double>();
}

// Copies of `tensor` from either device agree to within `tolerance` of the largest.
inline void expect_alike(const Tensor& actual, const Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!actual.defined()) return;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  EXPECT_LE(relative_difference(values_of(actual), values_of(expected)), tolerance) << what;
}

}  // namespace adret::test
