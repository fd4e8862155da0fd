// Routes each kernel to its implementation; aligned host memory behind a pool.
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/widened.h>
#include <adret/core/plugin.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>

#include <cstdlib>
#include <cstring>

namespace adret {
namespace {

class HostAllocator final : public RawAllocator {
 public:
  void* allocate(size_t bytes) noexcept override {
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  }
  void deallocate(void* data, size_t) noexcept override { std::free(data); }
};

void run_as_is(const Kernel& kernel) {
  std::visit([](const auto& call) { cpu::run(call); }, kernel.any());
}

class CpuBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& kernel) override {
    if (cpu::needs_widening(kernel)) return cpu::run_widened(kernel, &run_as_is);
    run_as_is(kernel);
  }
  DeviceServices& services() override { return *this; }

  MemoryPool& pool() override { return pool_; }
  void copy(void* to, const void* from, size_t bytes, CopyKind) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void synchronize() override {}
  std::string report() override {
    return fmt::format("{} threads, kernels for {}", num_threads(), cpu_arch());
  }

 private:
  HostAllocator allocator_;
  MemoryPool pool_{"cpu", allocator_, {.poison_free = true}};
};

std::unique_ptr<Backend> make(uint8_t) { return std::make_unique<CpuBackend>(); }

}  // namespace

namespace cpu {
void run(const kernels::Custom& call) { call.kernel->run_cpu(call.in, call.out); }
}  // namespace cpu

}  // namespace adret

extern "C" __attribute__((visibility("default")))
const adret::BackendPlugin adret_backend_plugin = {
    .stamp = adret::plugin_stamp(adret::DeviceType::cpu), .make = &adret::make};
