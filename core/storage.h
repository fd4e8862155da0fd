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

// The id of the next storage that is made.
uint64_t next_storage_id();

// Where this thread's next block on a device comes from. Throws DeviceError.
MemoryPool& pool_for(Device device);

// Outlives a storage that was asked for it, and says whether the storage is still there. Both are
// used by one thread.
class StorageLife : public RefCounted {
 public:
  bool over() const { return over_; }

 private:
  friend class Storage;
  bool over_ = false;
};

class Storage : public VersionCounter {
 public:
  // From the pool of the device, or of the innermost PoolScope for it. Throws OutOfMemory, or
  // DeviceError when the device has no backend.
  static IntrusivePtr<Storage> allocate(size_t bytes, Device device);
  // Stands for memory that is yet to be given: takes none, and its data is null.
  static IntrusivePtr<Storage> placeholder(size_t bytes, Device device);

  // Rises with every storage that is made, in any thread.
  uint64_t id() const { return id_; }
  IntrusivePtr<StorageLife> life();

  void* data() const { return allocation_.data; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  Storage(MemoryPool::Allocation allocation, size_t bytes, Device device);
  ~Storage() override;

  MemoryPool::Allocation allocation_;
  size_t bytes_;
  uint64_t id_;
  Device device_;
  IntrusivePtr<StorageLife> life_;  // if anybody asked
};

}  // namespace adret
