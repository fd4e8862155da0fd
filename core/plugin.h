// Backends as shared objects beside the library, loaded when first needed.
#pragma once

#include <adret/core/backend.h>
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

// Differs between builds whose kernel lists or structs differ: they must not be mixed.
constexpr uint64_t plugin_stamp() {
  uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (uint64_t part :
       {uint64_t(std::variant_size_v<kernels::AnyKernel>), uint64_t(sizeof(Kernel)),
        uint64_t(sizeof(TensorView)), uint64_t(sizeof(Tensor)), uint64_t(sizeof(BackendPlugin))}) {
    hash = (hash ^ part) * 1099511628211u;
  }
  return hash;
}

// Loads `file` from the folder of the core library, for the life of the process, and makes its
// backend for the device of that number. Throws DeviceError with the path when it is missing,
// cannot be loaded, or is of another build.
std::unique_ptr<Backend> load_backend(const std::string& file, uint8_t device = 0);

// The CPU backend for the best instruction set that this build has and this processor knows, or for
// the one that the environment variable ADRET_CPU_ARCH names. Throws DeviceError when there is
// none.
std::unique_ptr<Backend> load_cpu_backend();

// The CUDA backend for a device. Throws DeviceError when it was not built, or saying what keeps the
// device from being used.
std::unique_ptr<Backend> load_cuda_backend(uint8_t device);

}  // namespace adret
