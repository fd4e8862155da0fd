// Comparison of a kernel's values with a reference, and of its bits for several numbers of threads.
#pragma once

#include <adret/core/compute_mode.h>
#include <adret/core/thread_pool.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/mirror.h"

namespace adret::test {

// |actual - expected| <= relative * |expected| + absolute at every place; NaN and infinities equal
// themselves.
struct Tolerance {
  double relative = 0, absolute = 0;
};

inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                         Tolerance tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (std::isnan(e) || std::isinf(e)) {
      ASSERT_TRUE(a == e || (std::isnan(a) && std::isnan(e)))
          << what << ", element " << i << ": " << a << " instead of " << e;
    } else {
      ASSERT_NEAR(a, e, tolerance.relative * std::abs(e) + tolerance.absolute)
          << what << ", element " << i;
    }
  }
}

// Values of replayed steps beside those of eager ones. The CPU's kernels give the same bits when
// they are fused, those of a GPU round differently.
template <class T>
void expect_as_eager(const std::vector<T>& replayed, const std::vector<T>& eager,
                     double tolerance = 1e-4) {
  if (test_device() != TestDevice::cuda) {
    EXPECT_EQ(replayed, eager);
    return;
  }
  expect_close({replayed.begin(), replayed.end()}, {eager.begin(), eager.end()},
               {.relative = tolerance, .absolute = tolerance}, "a replay");
}

// f() runs a kernel and returns its results; they are to be the same bits for any number of
// threads.
template <class F>
void expect_same_for_any_threads(F&& f) {
  // Under another device (Note [Test devices]) this asks for the same bits every time.
  ComputeMode mode = compute_mode();
  mode.deterministic = true;
  const ComputeModeScope deterministic(mode);
  const int before = num_threads();
  set_num_threads(1);
  const auto expected = f();
  for (int threads : {2, 3, 5}) {
    set_num_threads(threads);
    EXPECT_TRUE(f() == expected) << threads << " threads";
  }
  set_num_threads(before);
}

}  // namespace adret::test
