// A reference-counted block of device memory from the pool of its device.
#pragma once

#include <adret/core/device.h>
#include <adret/core/intrusive_ptr.h>
#include <adret/core/memory_pool.h>

#include <cstddef>
#include <cstdint>

namespace adret {

// Counts the writes to a tensor's memory, so that a saved tensor notices when it was overwritten.
// A tensor and its reshapes and slices share one; tensors that share an arena have one each.
class VersionCounter : public RefCounted {
 public:
  uint32_t value() const { return value_; }
  void bump() { ++value_; }

 private:
  uint32_t value_ = 0;
};

class Storage : public VersionCounter {
 public:
  // Throws OutOfMemory, or DeviceError when the device has no backend.
  static IntrusivePtr<Storage> allocate(size_t bytes, Device device);

  void* data() const { return allocation_.data; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  Storage(MemoryPool& pool, size_t bytes, Device device);
  ~Storage() override;

  MemoryPool& pool_;
  MemoryPool::Allocation allocation_;
  size_t bytes_;
  Device device_;
};

}  // namespace adret
