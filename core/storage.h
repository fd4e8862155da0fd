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

// While it lives, what this thread allocates on a device comes from `pool`: one that make_private()
// of the device's own gave, which must outlive the scope. Blocks go back to the pool they came
// from, also after the scope, and may outlive the pool.
class PoolScope {
 public:
  PoolScope(Device device, MemoryPool& pool);
  ~PoolScope();
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  friend MemoryPool& pool_for(Device device);
  const Device device_;
  MemoryPool& pool_;
  const PoolScope* const outer_;
};

// Where this thread's next block on a device comes from. Throws DeviceError.
MemoryPool& pool_for(Device device);

class Storage : public VersionCounter {
 public:
  // From the pool of the device, or of the innermost PoolScope for it. Throws OutOfMemory, or
  // DeviceError when the device has no backend.
  static IntrusivePtr<Storage> allocate(size_t bytes, Device device);

  void* data() const { return allocation_.data; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  Storage(MemoryPool& pool, size_t bytes, Device device);
  ~Storage() override;

  MemoryPool::Allocation allocation_;
  size_t bytes_;
  Device device_;
};

}  // namespace adret
