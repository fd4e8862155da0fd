// A second device for tests: the CPU's kernels over separate memory, in the CUDA slot.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/support/fake_allocator.h"

namespace adret::test {

// Fails the test when a call mixes devices.
class ShadowBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& call) override {
    for (const auto& operands : {inputs(call), outputs(call)}) {
      for (const kernels::Operand& operand : operands) {
        EXPECT_FALSE(operand.view.defined() && operand.view.device.is_cpu()) << to_string(call);
      }
    }
    backend_for(Device::cpu()).run(call);
  }
  DeviceServices& services() override { return *this; }

  MemoryPool& pool() override { return pool_; }
  void copy(void* to, const void* from, size_t bytes, CopyKind) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void synchronize() override {}

 private:
  FakeAllocator allocator_;
  MemoryPool pool_{"shadow", allocator_, {.alignment = 512}};
};

// Device::cuda() is a shadow device while this lives; its tensors must go before.
class ShadowDevice {
 public:
  ShadowDevice() : before_(set_backend(Device::cuda(), std::make_unique<ShadowBackend>())) {}
  ~ShadowDevice() { set_backend(Device::cuda(), std::move(before_)); }
  ShadowDevice(const ShadowDevice&) = delete;
  ShadowDevice& operator=(const ShadowDevice&) = delete;

 private:
  std::unique_ptr<Backend> before_;
};

}  // namespace adret::test
