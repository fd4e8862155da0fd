// A second device for tests: the CPU's kernels over separate memory, in the CUDA slot.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>

#include <cstring>

#include "tests/support/fake_allocator.h"

namespace adret::test {

// Fails the test when a call mixes devices.
class ShadowBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& call) override;
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

}  // namespace adret::test
