// Loading of backends: what is said of those that cannot be used, and the choice of a device.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/plugin.h>
#include <adret/core/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

std::string fake(const std::string& name) {
  return std::string(ADRET_FAKE_PLUGINS) + "/" + name + "/libadret_cuda.so";
}

TEST(Plugin, IsLoadedWithItsBackend) {
  const std::unique_ptr<Backend> backend = load_backend(fake("working"), Device::cuda());
  EXPECT_EQ(backend->services().report(), "a fake");
}

TEST(Plugin, OfAnotherBuildIsRefused) {
  for (const char* name : {"other_build", "no_plugin"}) {
    expect_error<DeviceError>([&] { return load_backend(fake(name), Device::cuda()); },
                              "[device] the backend " + fake(name) +
                                  " belongs to another build of the library; build or install "
                                  "both together");
  }
}

TEST(Plugin, ThatIsMissingOrDamagedIsNamed) {
  const TempDir folder;
  const std::string missing = folder / "libadret_cuda.so";
  expect_error<DeviceError>([&] { return load_backend(missing, Device::cuda()); },
                            "[device] cannot load the backend " + missing);
  const std::string damaged = folder.write("damaged.so", "no shared object").string();
  expect_error<DeviceError>([&] { return load_backend(damaged, Device::cuda()); }, damaged);
}

TEST(Plugin, SaysWhatKeepsItsDeviceFromBeingUsed) {
  EXPECT_EQ(
      thrown<DeviceError>([] { return load_backend(fake("without_device"), Device::cuda()); }),
      "[cuda] the fake finds no device");
}

TEST(Plugin, StampIsTheSameInEveryFileOfABuild) {
  constexpr uint64_t stamp = plugin_stamp(DeviceType::cuda);
  EXPECT_NE(stamp, 0u);
  EXPECT_NE(stamp, plugin_stamp(DeviceType::cpu));
  EXPECT_EQ(stamp, plugin_stamp(DeviceType::cuda));
}

TEST(BestDevice, IsCudaWhereItCanBeUsed) {
  const SecondDevice second;
  std::string why = "unchanged";
  EXPECT_EQ(Device::best(&why), Device::cuda());
  EXPECT_EQ(why, "unchanged");
  EXPECT_EQ(Device::parse("auto"), Device::cuda());
}

TEST(BestDevice, SaysWhyItIsTheCpu) {
  std::string why;
  const Device best = Device::best(&why);
  EXPECT_EQ(Device::parse("auto"), best);
  EXPECT_EQ(Device::best(), best);
  if (!best.is_cpu()) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_THAT(why, testing::AnyOf(testing::HasSubstr("[device] cuda:0 has no backend"),
                                  testing::HasSubstr("[cuda] ")));
}

TEST(DeviceReport, NamesTheDevice) {
  EXPECT_TRUE(device_report(Device::cpu()).starts_with("cpu: "));
  EXPECT_NE(device_report(Device::cpu()).find(cpu_arch()), std::string::npos);
  const SecondDevice second;
  EXPECT_TRUE(device_report(Device::cuda()).starts_with("cuda:0"));
}

}  // namespace
}  // namespace adret
