// Backends in the place of CUDA's, for tests of how one is loaded and of what is said when it
// cannot be: the kernels are the CPU's.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/plugin.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace adret {
namespace {

// As many bytes as the environment variable ADRET_FAKE_BYTES says, if it says any.
class Budget final : public RawAllocator {
 public:
  void* allocate(size_t bytes) noexcept override {
    if (used_.fetch_add(bytes) + bytes <= limit_) {
      if (void* data = std::aligned_alloc(512, (bytes + 511) / 512 * 512)) return data;
    }
    used_ -= bytes;
    return nullptr;
  }
  void deallocate(void* data, size_t bytes) noexcept override {
    std::free(data);
    used_ -= bytes;
  }
  std::optional<size_t> free_bytes() noexcept override { return limit_ - used_; }

 private:
  static size_t read_limit() {
    const char* text = std::getenv("ADRET_FAKE_BYTES");
    return text ? std::strtoull(text, nullptr, 10) : size_t(1) << 40;
  }
  const size_t limit_ = read_limit();
  std::atomic<size_t> used_{0};
};

class FakeBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& call) override { backend_for(Device::cpu()).run(call); }
  DeviceServices& services() override { return *this; }
  MemoryPool& pool() override { return pool_; }
  void copy(void* to, const void* from, size_t bytes, CopyKind) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void synchronize() override {}
  std::string report() override { return "a fake"; }

 private:
  Budget allocator_;
  MemoryPool pool_{"cuda:0", allocator_, {.alignment = 512}};
};

std::unique_ptr<Backend> make([[maybe_unused]] uint8_t device) {
#ifdef ADRET_FAKE_PROBLEM
  throw DeviceError(ADRET_FAKE_PROBLEM);
#else
  return std::make_unique<FakeBackend>();
#endif
}

}  // namespace
}  // namespace adret

#ifndef ADRET_FAKE_STAMP
#define ADRET_FAKE_STAMP adret::plugin_stamp(adret::DeviceType::cuda)
#endif
#ifndef ADRET_FAKE_SYMBOL
#define ADRET_FAKE_SYMBOL adret_backend_plugin
#endif
extern "C" __attribute__((visibility("default")))
const adret::BackendPlugin ADRET_FAKE_SYMBOL = {.stamp = ADRET_FAKE_STAMP, .make = &adret::make};
