// Looking at the driver and the devices, and telling about them.
#include <adret/core/cuda/device.h>
#include <adret/core/cuda/libraries.h>
#include <fmt/core.h>

#include <cstdlib>
#include <fstream>

namespace adret::cuda {

DriverState find_driver() {
  DriverState found;
  cudaDriverGetVersion(&found.driver);
  cudaRuntimeGetVersion(&found.runtime);
  found.status = cudaGetDeviceCount(&found.count);
  cudaGetLastError();
  found.driver_path = path_of_library("libcuda.so.1");
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) found.visible = visible;
  return found;
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string device_problem(const DriverState& found, int device) {
  const std::string runtime = cuda_version_text(found.runtime);
  if (found.driver == 0) {
    return fmt::format(
        "[cuda] there is no NVIDIA driver (libcuda.so.1), and this build uses CUDA {}: install a "
        "driver for it, or use Device::cpu()",
        runtime);
  }
  const std::string release = driver_release();
  const std::string driver =
      fmt::format("driver{}{} for CUDA {}{}", release.empty() ? "" : " ", release,
                  cuda_version_text(found.driver),
                  found.driver_path.empty() ? "" : fmt::format(" at {}", found.driver_path));
  if (found.status == cudaErrorInsufficientDriver) {
    return fmt::format(
        "[cuda] the NVIDIA {} is older than this build's CUDA {}: update the driver, build with an "
        "older CUDA toolkit, or use Device::cpu()",
        driver, runtime);
  }
  if (found.status != cudaSuccess || found.count == 0) {
    const std::string visible =
        found.visible ? fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\"", *found.visible) : "";
    const char* const reason =
        cudaGetErrorString(found.status == cudaSuccess ? cudaErrorNoDevice : found.status);
    return fmt::format("[cuda] no device is to be seen: {} ({}, this build uses {}){}; {}", reason,
                       driver, runtime, visible,
                       found.visible ? "change or unset it, or use Device::cpu()"
                                     : "see what nvidia-smi says, or use Device::cpu()");
  }
  if (device >= found.count) {
    const std::string devices = found.count == 1
                                    ? "only cuda:0 is"
                                    : fmt::format("devices cuda:0 to cuda:{} are", found.count - 1);
    return fmt::format(
        "[cuda] cuda:{} is not there: {}{}", device, devices,
        found.visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", *found.visible) : "");
  }
  return {};
}

std::string driver_release() {
  std::string release;
  std::ifstream("/sys/module/nvidia/version") >> release;
  return release;
}

std::string report(const cudaDeviceProp& properties) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const std::string release = driver_release();
  std::string text = fmt::format(
      "{}, {:.1f} GiB, compute capability {}.{}; driver{}{} for CUDA {} at {}; CUDA runtime {}",
      properties.name, double(properties.totalGlobalMem) / (size_t(1) << 30), properties.major,
      properties.minor, release.empty() ? "" : " ", release, cuda_version_text(driver),
      path_of_library("libcuda.so.1"), cuda_version_text(runtime));
  for (const LibraryVersion& library : {version_of(cudnn()), version_of(cublas())}) {
    text += "; " + to_string(library);
  }
  return text;
}

}  // namespace adret::cuda
