// Sends the tests' kernel calls to the device that ADRET_TEST_DEVICE names.
#include "tests/support/mirror.h"

#include <adret/core/decorators/relocate.h>
#include <adret/core/kernels/jitter_colors.h>
#include <adret/core/kernels/mix_images.h>
#include <adret/core/kernels/scan.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/shadow_backend.h"

namespace adret::test {
namespace {

TestDevice device_from_environment() {
  const char* value = std::getenv("ADRET_TEST_DEVICE");
  const std::string name = value ? value : "cpu";
  if (name == "cpu" || name.empty()) return TestDevice::cpu;
  if (name == "cuda") return TestDevice::cuda;
  if (name == "shadow") return TestDevice::shadow;
  throw std::invalid_argument("ADRET_TEST_DEVICE=" + name + "; use cpu, cuda or shadow");
}

std::vector<std::function<std::unique_ptr<Decorator>()>>& inner_decorators() {
  static std::vector<std::function<std::unique_ptr<Decorator>()>> list;
  return list;
}

thread_local bool paused = false;
int64_t calls = 0;  // that the mirror sent to the other device

// The mirror of a program's main thread, from before the first test to after the last.
class MirrorEnvironment final : public testing::Environment {
 public:
  void SetUp() override {
    try {
      if (!mirrored()) return;
      if (test_device() == TestDevice::shadow) {
        set_backend(Device::cuda(), std::make_unique<ShadowBackend>());
      }
      backend_for(Device::cuda());
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
    decorators_.push_back(std::make_unique<Mirror>());
    for (const auto& make : inner_decorators()) decorators_.push_back(make());
  }
  void TearDown() override {
    while (!decorators_.empty()) decorators_.pop_back();
    if (mirrored()) {
      std::printf("%lld kernels ran on the %s device\n", static_cast<long long>(calls),
                  test_device() == TestDevice::cuda ? "CUDA" : "shadow");
    }
  }

 private:
  std::vector<std::unique_ptr<Decorator>> decorators_;
};

// Operands come with their guards; for memory tools, which see the end of an allocation, without.
size_t margin() {
  static const char* const pool = std::getenv("ADRET_CUDA_POOL");
  return pool && std::string_view(pool) == "off" ? 0 : 4096;
}

}  // namespace

TestDevice test_device() {
  static const TestDevice device = device_from_environment();
  return device;
}

bool is_of_tests(const Kernel& call) {
  const auto* const custom = std::get_if<kernels::Custom>(&call.any());
  if (!custom) return false;
  const std::type_info& type = custom->kernel->type();
  return type != typeid(kernels::Scan) && type != typeid(kernels::MixImages) &&
         type != typeid(kernels::JitterColors);
}

void Mirror::run(const Kernel& call) {
  const auto* const custom = std::get_if<kernels::Custom>(&call.any());
  const bool stays =
      is_of_tests(call) && (test_device() == TestDevice::shadow || !has_cuda_part(*custom->kernel));
  if (paused || stays || !device_of(call).is_cpu()) return forward(call);
  const RelocatedCall there(call, Device::cuda(), margin());
  forward(there.call());
  there.copy_back();
  ++calls;
}

bool Mirror::watches() const { return !paused; }

MirrorPause::MirrorPause() : before_(std::exchange(paused, true)) {}
MirrorPause::~MirrorPause() { paused = before_; }

void add_decorator_within_mirror(std::function<std::unique_ptr<Decorator>()> make) {
  inner_decorators().push_back(std::move(make));
}

SecondDevice::SecondDevice() {
  if (mirrored()) return;
  before_ = set_backend(Device::cuda(), std::make_unique<ShadowBackend>());
}

SecondDevice::~SecondDevice() {
  if (!mirrored()) set_backend(Device::cuda(), std::move(before_));
}

std::filesystem::path source_dir() {
  const char* elsewhere = std::getenv("ADRET_SOURCE_DIR");
  return elsewhere && *elsewhere ? elsewhere : ADRET_SOURCE_DIR;
}

}  // namespace adret::test

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  testing::AddGlobalTestEnvironment(new adret::test::MirrorEnvironment);
  return RUN_ALL_TESTS();
}
