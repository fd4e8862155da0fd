// Routes each kernel to its implementation; aligned host memory behind a pool.
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/widened.h>
#include <adret/core/plugin.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace adret {
namespace {

class HostAllocator final : public RawAllocator {
 public:
  // Large ones in huge pages, where the system has them on request: a page of 4 KiB costs a fault
  // and a place among the few addresses that the processor keeps translated.
  void* allocate(size_t bytes) noexcept override {
    constexpr size_t huge = size_t(2) << 20;
    const size_t alignment = bytes < huge ? 64 : huge;
    void* data = std::aligned_alloc(alignment, (bytes + 63) / 64 * 64);
    if (data && bytes >= huge) madvise(data, bytes / huge * huge, MADV_HUGEPAGE);
    return data;
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
void run(const kernels::Custom& call) {
  IntrusivePtr<Storage> memory;
  call.kernel->run_cpu(call.with_workspace(Device::cpu(), memory));
}
}  // namespace cpu

}  // namespace adret

extern "C" __attribute__((visibility("default")))
const adret::BackendPlugin adret_backend_plugin = {
    .stamp = adret::plugin_stamp(adret::DeviceType::cpu), .make = &adret::make};
