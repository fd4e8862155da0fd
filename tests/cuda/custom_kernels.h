// A custom kernel as a user's files have it: the CPU's part in custom_test.cpp, the GPU's in
// custom_kernels.cu.
#pragma once

#include <adret/core/kernels/custom.h>

namespace adret::test {

// y[i] = the mean of x[i] and its neighbours up to `radius` away, of those there are; f32 (n). On
// the way the sums of all elements before each are in the workspace.
struct MovingMean {
  static constexpr const char* name = "moving_mean";
  int radius = 1;
  int threads = 128;  // of a block; more than there can be make the launch fail
  bool operator==(const MovingMean&) const = default;
  size_t workspace_bytes(const CustomCall& call) const;
  void run_cpu(const CustomCall& call) const;
};

}  // namespace adret::test
