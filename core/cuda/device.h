// What a CUDA device needs from the machine, and the sentences that say what is missing.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <string>

namespace adret::cuda {

// What the CUDA runtime finds of drivers and devices.
struct DriverState {
  int driver = 0;           // CUDA version that the driver knows, 13000 for 13.0; 0: no driver
  int runtime = 0;          // that this build brings along
  std::string driver_path;  // of libcuda.so.1
  cudaError_t status = cudaSuccess;  // of counting the devices
  int count = 0;
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES, if set
};
DriverState find_driver();

// Why the device cannot be used, and what to do; empty when it can.
std::string device_problem(const DriverState& found, int device);

// "13.0" for 13000.
std::string cuda_version_text(int version);
// Of the kernel module, as "580.159.04", where CUDA only tells what API it offers; empty where the
// system does not say.
std::string driver_release();

// The line that DeviceServices::report documents.
std::string report(const cudaDeviceProp& properties);

}  // namespace adret::cuda
