// Device memory from cudaMalloc, and copies between host and device through pinned memory.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/cuda/context.h>

#include <array>

namespace adret::cuda {

class DeviceAllocator final : public RawAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device) {}
  void* allocate(size_t bytes) noexcept override;
  void deallocate(void* data, size_t bytes) noexcept override;

 private:
  int device_;
};

// Copies from ordinary host memory to the device: the bytes are taken into pinned memory at once,
// and travel after the kernels launched so far. The caller waits only when all of it is on the way.
class Staging {
 public:
  explicit Staging(const Context& context) : context_(context) {}
  void upload(void* to, const void* from, size_t bytes);

 private:
  static constexpr size_t slot_bytes = size_t(1) << 20;
  static void free_pinned(void* data) { cudaFreeHost(data); }

  struct Slot {
    Handle<void*, free_pinned> data;
    Event sent;
  };
  Slot& next_slot();

  const Context& context_;
  std::array<Slot, 8> slots_;
  size_t next_ = 0;
};

}  // namespace adret::cuda
