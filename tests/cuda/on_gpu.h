// The fixture of tests that run on a GPU: without one they are skipped.
#pragma once

#include <adret/core/cuda/context.h>
#include <gtest/gtest.h>

#include "tests/support/mirror.h"

namespace adret::cuda {

template <class Base = ::testing::Test>
class OnGpu : public Base {
 protected:
  void SetUp() override {
    if (test::test_device() != test::TestDevice::cuda) {
      GTEST_SKIP() << "it runs on a GPU; run it with ADRET_TEST_DEVICE=cuda";
    }
  }
  static Context& context() {
    static Context context(0);
    return context;
  }
};

}  // namespace adret::cuda
