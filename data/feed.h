// The way of batches from the host's memory to a device, beside its kernels.
#pragma once

#include <adret/core/backend.h>
#include <adret/data/dataset.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace adret {

// Note [Feeding a device]
// Whoever makes a batch on the CPU, a worker or the loop, copies it into a host buffer, from which
// the device copies it by itself (Note [Copies beside kernels]) while the loop works on the batch
// before. The batch lies in memory of its own from the device's pool: its copy starts behind the
// kernels that were run before that memory was taken, those of the batch before the last. A host
// buffer is written again only when its copy is over.

// Host buffers of a device that are used again and again. Thread-safe.
class HostBuffers : public std::enable_shared_from_this<HostBuffers> {
 public:
  // Throws DeviceError when the device cannot be used.
  explicit HostBuffers(Device device) : services_(backend_for(device).services()) {}

  // One of at least `bytes`, given back when the pointer is destroyed. Throws OutOfMemory.
  std::shared_ptr<HostBuffer> take(size_t bytes);

 private:
  struct Sized {
    std::unique_ptr<HostBuffer> buffer;
    size_t bytes = 0;
  };
  DeviceServices& services_;
  std::mutex mutex_;
  std::vector<Sized> free_;
};

// A batch of which the tensors on the CPU lie in a host buffer, and are on their way to a device.
class StagedBatch {
 public:
  // As it is.
  explicit StagedBatch(Batch batch) : batch_(std::move(batch)) {}
  // Copies what lies on the CPU; what lies on `device` stays. Throws DataError for tensors of a
  // third device.
  StagedBatch(Batch batch, Device device, HostBuffers& buffers);

  const Batch& batch() const { return batch_; }
  Batch take() && { return std::move(batch_); }

 private:
  friend class DeviceFeed;
  Batch batch_;
  std::shared_ptr<HostBuffer> buffer_;  // null: nothing to copy
};

// The batches that are on their way, for the one thread that launches kernels.
class DeviceFeed {
 public:
  explicit DeviceFeed(Device device) : device_(device), services_(backend_for(device).services()) {}
  // Waits for the copies that are under way.
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  // Takes memory on the device and starts the copy. Waits for an earlier one when there are many.
  void send(StagedBatch staged);
  bool empty() const { return sent_.empty(); }
  // The oldest that was sent: kernels that are run from now on find it on the device.
  Batch receive();

 private:
  struct Sent {
    Batch batch;
    Moment there;
  };
  struct Copying {
    std::shared_ptr<HostBuffer> buffer;
    Moment over;
  };
  void drop_finished();

  Device device_;
  DeviceServices& services_;
  std::deque<Sent> sent_;
  std::deque<Copying> copying_;
};

}  // namespace adret
