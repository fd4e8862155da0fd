// The sentences about drivers and devices, from made-up states of a machine.
#include <adret/core/cuda/device.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adret::cuda {
namespace {

using testing::HasSubstr;

DriverState working() {
  return {.driver = 13000, .runtime = 13000, .driver_path = "/lib/libcuda.so.1", .count = 2};
}

TEST(DeviceProblem, IsNoneForADeviceThatIsThere) {
  EXPECT_EQ(device_problem(working(), 0), "");
  EXPECT_EQ(device_problem(working(), 1), "");
}

TEST(DeviceProblem, NamesAMissingDriver) {
  EXPECT_EQ(device_problem({.runtime = 13000, .status = cudaErrorInsufficientDriver}, 0),
            "[cuda] there is no NVIDIA driver (libcuda.so.1), and this build uses CUDA 13.0: "
            "install a driver for it, or use Device::cpu()");
}

TEST(DeviceProblem, NamesAnOldDriverWithVersionsAndPath) {
  DriverState old = working();
  old.driver = 12040;
  old.status = cudaErrorInsufficientDriver;
  old.count = 0;
  EXPECT_THAT(device_problem(old, 0),
              testing::AllOf(HasSubstr("for CUDA 12.4 at /lib/libcuda.so.1"),
                             HasSubstr("older than this build's CUDA 13.0"),
                             HasSubstr("update the driver")));
}

TEST(DeviceProblem, QuotesTheVariableThatHidesAllDevices) {
  DriverState hidden = working();
  hidden.status = cudaErrorNoDevice;
  hidden.count = 0;
  hidden.visible = "";
  EXPECT_THAT(device_problem(hidden, 0),
              testing::AllOf(HasSubstr("[cuda] no device is to be seen: no CUDA-capable device"),
                             HasSubstr("CUDA_VISIBLE_DEVICES is \"\"; change or unset it")));
  hidden.visible.reset();
  EXPECT_THAT(device_problem(hidden, 0),
              testing::AllOf(HasSubstr("nvidia-smi"), testing::Not(HasSubstr("VISIBLE"))));
}

TEST(DeviceProblem, SaysWhichDevicesThereAre) {
  EXPECT_EQ(device_problem(working(), 2),
            "[cuda] cuda:2 is not there: devices cuda:0 to cuda:1 are");
  DriverState one = working();
  one.count = 1;
  one.visible = "3";
  EXPECT_EQ(device_problem(one, 1),
            "[cuda] cuda:1 is not there: only cuda:0 is (CUDA_VISIBLE_DEVICES is \"3\")");
}

TEST(DeviceProblem, PassesOnWhatTheRuntimeSays) {
  DriverState broken = working();
  broken.status = cudaErrorMemoryAllocation;
  EXPECT_THAT(device_problem(broken, 0), HasSubstr("out of memory"));
}

}  // namespace
}  // namespace adret::cuda
