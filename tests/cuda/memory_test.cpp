// The GPU's memory after many trainings, as the driver counts it.
#include <adret/core/backend.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "on_gpu.h"
#include "tests/support/mirror.h"
#include "tests/support/trainers.h"

namespace adret {
namespace {

using namespace test;

using DeviceMemory = cuda::OnGpu<>;
TEST_F(DeviceMemory, IsTheSameAfterTwoTrainersAndAHundred) {
  const MirrorPause pause;
  const auto free_memory = [] {
    backend_for(Device::cuda()).services().pool().free_cache();
    size_t free = 0, total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  };
  size_t after_two = 0;
  for (int trainer = 1; trainer <= 100; ++trainer) {
    train_once(Device::cuda());
    if (trainer == 2) after_two = free_memory();
  }
  const size_t after_all = free_memory();
  std::printf("  free after 2 trainers %zu, after 100 %zu bytes\n", after_two, after_all);
  EXPECT_GE(after_all + (size_t(2) << 20), after_two);  // the driver's grain
}

}  // namespace
}  // namespace adret
