// Backends as shared objects beside the library, loaded when first needed.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/compute_mode.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace adret {

// What a backend's shared object exports, as the C symbol `adret_backend_plugin`.
struct BackendPlugin {
  uint64_t stamp;
  std::unique_ptr<Backend> (*make)(uint8_t device);  // throws DeviceError
};

// Differs between backends of other types of device, and between builds that must not be mixed:
// other versions of the library, lists of kernels, or layouts of what crosses between it and a
// backend.
constexpr uint64_t plugin_stamp(DeviceType type) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  const auto add = [&hash](uint64_t part) { hash = (hash ^ part) * 1099511628211u; };
  const auto add_text = [&add](const char* text) {
    for (; *text; ++text) add(uint64_t(*text));
    add(0);
  };
  add_text(ADRET_VERSION);
  add(uint64_t(type));
  const auto add_kernels = [&]<class... K>(const std::variant<K...>*) {
    ((add_text(K::name), add(sizeof(K)), add(alignof(K))), ...);
  };
  add_kernels(static_cast<const kernels::AnyKernel*>(nullptr));
  for (const size_t size : {sizeof(Kernel), sizeof(Tensor), sizeof(TensorView), sizeof(ComputeMode),
                            sizeof(MemoryStats), sizeof(MemoryPool), sizeof(MemoryPoolOptions),
                            sizeof(Storage), sizeof(BackendPlugin)}) {
    add(size);
  }
  return hash;
}

// Loads `file` from the folder of the core library, for the life of the process, and makes its
// backend for the device. Throws DeviceError with the path when it is missing, cannot be loaded, is
// of another build or for another type of device.
std::unique_ptr<Backend> load_backend(const std::string& file, Device device);

// The CPU backend for the best instruction set that this build has and this processor knows, or for
// the one that the environment variable ADRET_CPU_ARCH names. Throws DeviceError when there is
// none.
std::unique_ptr<Backend> load_cpu_backend();

// The CUDA backend for a device. Throws DeviceError when it was not built, or saying what keeps the
// device from being used.
std::unique_ptr<Backend> load_cuda_backend(uint8_t device);

}  // namespace adret
