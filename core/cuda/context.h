// What a CUDA device has for running kernels: its streams, its library handles, its properties.
#pragma once

#include <adret/core/cuda/capture_gate.h>
#include <adret/core/device.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <string>

namespace adret::cuda {

// Owns one foreign handle: Handle<cudaStream_t, cudaStreamDestroy>.
template <class T, auto destroy>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      value_ = other.release();
    }
    return *this;
  }
  ~Handle() { reset(); }

  T get() const { return value_; }
  operator T() const { return value_; }
  explicit operator bool() const { return value_ != T{}; }
  // Where a creating call writes: cudaStreamCreate(stream.out()).
  T* out() {
    reset();
    return &value_;
  }
  void reset() noexcept {
    if (value_) destroy(release());
  }
  T release() {
    T value = value_;
    value_ = T{};
    return value;
  }

 private:
  T value_{};
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;

// Makes a device the thread's current one for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

// One a device, made at its first use and never destroyed. Kernels are launched by one thread, on
// the one compute stream; uploads of input may go over the copy stream.
class Context {
 public:
  explicit Context(int device);  // throws DeviceError

  const int index;
  const cudaDeviceProp properties;
  const Stream compute, copy;
  CaptureGate capture_gate;
  // Of what is captured now (GraphOrder::lane). Kernels of two lanes run at once, so those that may
  // be in either (runs_beside) have the counters that they keep in device memory for each.
  int lane = 0;

  Device device() const { return Device::cuda(uint8_t(index)); }
  int multiprocessors() const { return properties.multiProcessorCount; }
  // Created when first asked for, on the compute stream. Throw DeviceError when that is in a
  // capture.
  cudnnHandle_t cudnn();
  cublasLtHandle_t cublas();

 private:
  struct Libraries;
  std::shared_ptr<Libraries> libraries_;
};

}  // namespace adret::cuda
