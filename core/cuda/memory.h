// Device memory from cudaMalloc, pinned host memory, and copies between host and device.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/cuda/context.h>
#include <adret/core/cuda/ring.h>
#include <adret/core/tensor_view.h>

#include <array>
#include <memory>
#include <mutex>

namespace adret::cuda {

// Zero bytes over all of y, after the kernels launched so far.
void clear(const Context& context, const TensorView& y);

class DeviceAllocator final : public RawAllocator {
 public:
  explicit DeviceAllocator(int device) : device_(device) {}
  void* allocate(size_t bytes) noexcept override;
  void deallocate(void* data, size_t bytes) noexcept override;
  std::optional<size_t> free_bytes() noexcept override;

 private:
  int device_;
};

// Host memory that copies are made from and into by the device itself.
class PinnedBuffer final : public HostBuffer {
 public:
  explicit PinnedBuffer(size_t bytes);  // throws OutOfMemory
  ~PinnedBuffer() override;
};

// Copies between ordinary host memory and the device, in order with the kernels. The device must be
// the current one. Throw DeviceError in a captured step.
class Staging {
 public:
  explicit Staging(const Context& context) : context_(context) {}
  // The bytes are taken into pinned memory at once and travel after the kernels launched so far:
  // the caller waits only when all of it is on the way.
  void upload(void* to, const void* from, size_t bytes);
  // Waits for the kernels launched so far and the bytes.
  void download(void* to, const void* from, size_t bytes);

 private:
  static constexpr size_t part_bytes = size_t(512) << 10, parts = 8;
  static constexpr size_t small_bytes = size_t(64) << 10;  // of a download through pinned memory

  void make();

  const Context& context_;
  std::mutex mutex_;
  Ring ring_{part_bytes, parts};
  std::unique_ptr<PinnedBuffer> sent_, received_;
  std::array<Event, parts> marks_;
};

// A point on a stream; one that order alone needs costs the device less than one that has a time.
class StreamEvent final : public DeviceEvent {
 public:
  enum class Kind : unsigned { order = cudaEventDisableTiming, time = cudaEventDefault };
  explicit StreamEvent(cudaStream_t stream, Kind kind = Kind::order);
  bool reached() override;
  void wait() override;
  double seconds_since(DeviceEvent& earlier) override;
  cudaEvent_t get() const { return event_; }

 private:
  Event event_;
  Kind kind_;
};

}  // namespace adret::cuda
