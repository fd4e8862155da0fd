// Routes each kernel to its implementation; the device's memory and copies.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/memory.h>
#include <adret/core/error.h>
#include <adret/core/plugin.h>
#include <fmt/core.h>

#include <cstdlib>

namespace adret {
namespace {

using cuda::Context;

// Whether each kernel is waited for, so that an error names the one that failed.
bool waits_for_kernels() {
  const char* value = std::getenv("ADRET_CUDA_SYNC");
  return value && *value && *value != '0';
}

class CudaBackend final : public Backend, DeviceServices {
 public:
  explicit CudaBackend(int device)
      : context_(device), allocator_(device), waits_(waits_for_kernels()) {}

  void run(const Kernel& kernel) override {
    make_current();
    try {
      std::visit([this](const auto& call) { cuda::run(context_, call); }, kernel.any());
      if (waits_) ADRET_CHECK(cudaStreamSynchronize(context_.compute));
    } catch (const DeviceError& error) {
      throw DeviceError(fmt::format("{}, in the kernel {}", error.what(), to_string(kernel)));
    }
  }
  DeviceServices& services() override { return *this; }

  MemoryPool& pool() override { return pool_; }

  void copy(void* to, const void* from, size_t bytes, CopyKind kind) override {
    if (bytes == 0) return;
    make_current();
    switch (kind) {
      case CopyKind::host_to_device: return staging_.upload(to, from, bytes);
      case CopyKind::device_to_host:
        ADRET_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, context_.compute));
        return synchronize();
      case CopyKind::device_to_device:
        ADRET_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context_.compute));
    }
  }

  void synchronize() override {
    make_current();
    ADRET_CHECK(cudaStreamSynchronize(context_.compute));
  }

 private:
  // The device of this thread, as the backends left it.
  void make_current() {
    static thread_local int current = -1;
    if (current == context_.index) return;
    ADRET_CHECK(cudaSetDevice(context_.index));
    current = context_.index;
  }

  Context context_;
  cuda::DeviceAllocator allocator_;
  MemoryPool pool_{to_string(context_.device()), allocator_, {.alignment = 512}};
  cuda::Staging staging_{context_};
  bool waits_;
};

// Throws DeviceError saying what keeps the device from being used.
void check_device(int device) {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  const auto text = [](int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  };
  if (driver == 0) {
    throw DeviceError(
        fmt::format("[cuda] there is no NVIDIA driver (libcuda.so.1); this build uses CUDA {}: "
                    "install a driver "
                    "for it, or use Device::cpu()",
                    text(runtime)));
  }
  if (status != cudaSuccess || count == 0) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw DeviceError(fmt::format(
        "[cuda] no device can be used: {} (driver for CUDA {}, this build uses {}{}); use "
        "Device::cpu()",
        cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status), text(driver),
        text(runtime), visible ? fmt::format(", CUDA_VISIBLE_DEVICES=\"{}\"", visible) : ""));
  }
  if (device >= count) {
    throw DeviceError(
        fmt::format("[cuda] cuda:{} is not there: devices 0..{} are", device, count - 1));
  }
}

std::unique_ptr<Backend> make(uint8_t device) {
  check_device(device);
  cuda::cudnn();  // what is missing is said now, not at the first convolution
  return std::make_unique<CudaBackend>(device);
}

}  // namespace

namespace cuda {
void run(Context& context, const kernels::Custom& call) {
  call.kernel->run_cuda(call.in, call.out, context.compute);
}
}  // namespace cuda

}  // namespace adret

extern "C" __attribute__((visibility("default")))
const adret::BackendPlugin adret_backend_plugin = {.stamp = adret::plugin_stamp(),
                                                   .make = &adret::make};
