// cudaMalloc as a raw allocator; pinned memory and the copies through it.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/memory.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <cstring>

namespace adret::cuda {
namespace {

// Makes a device current for calls that report nothing.
class QuietGuard {
 public:
  explicit QuietGuard(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~QuietGuard() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

// CUDA forbids a thread that captures to allocate, lest the program take the allocation for a part
// of the graph. A pool does not: the memory is there from now on, and stays while the graph lives.
class AllowedWhileCapturing {
 public:
  AllowedWhileCapturing() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~AllowedWhileCapturing() { cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // then the one from before
};

}  // namespace

void clear(const Context& context, const TensorView& y) {
  if (y.bytes() > 0) ADRET_CHECK(cudaMemsetAsync(y.data, 0, y.bytes(), context.compute));
}

void* DeviceAllocator::allocate(size_t bytes) noexcept {
  const QuietGuard guard(device_);
  const AllowedWhileCapturing allowed;
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) == cudaSuccess) return data;
  cudaGetLastError();  // out of memory is the pool's to report
  return nullptr;
}

// Waits for the kernels that may still use it.
void DeviceAllocator::deallocate(void* data, size_t) noexcept {
  const AllowedWhileCapturing allowed;
  cudaFree(data);
}

std::optional<size_t> DeviceAllocator::free_bytes() noexcept {
  const QuietGuard guard(device_);
  const AllowedWhileCapturing allowed;
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return free;
  cudaGetLastError();
  return std::nullopt;
}

namespace {

void* allocate_pinned(size_t bytes) {
  void* data = nullptr;
  // Known to all devices, as it may be asked for on a thread whose current one is another.
  const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw OutOfMemory(
        fmt::format("[cuda] the host has no room for {} bytes of pinned memory; free "
                    "some, or raise the limit of locked memory (ulimit -l)",
                    bytes));
  }
  check(status, "cudaHostAlloc");
  return data;
}

}  // namespace

PinnedBuffer::PinnedBuffer(size_t bytes) : HostBuffer(allocate_pinned(bytes)) {}
PinnedBuffer::~PinnedBuffer() { cudaFreeHost(data_); }

void Staging::make() {
  if (received_) return;
  for (Event& mark : marks_) {
    if (!mark) ADRET_CHECK(cudaEventCreateWithFlags(mark.out(), cudaEventDisableTiming));
  }
  if (!sent_) sent_ = std::make_unique<PinnedBuffer>(ring_.bytes());
  received_ = std::make_unique<PinnedBuffer>(small_bytes);
}

void Staging::upload(void* to, const void* from, size_t bytes) {
  const auto passed = context_.capture_gate.pass("a value of the host is sent to the device",
                                                 "send it before, into what the step reads");
  const std::lock_guard lock(mutex_);
  make();
  const auto mark = [&](size_t part) {
    ADRET_CHECK(cudaEventRecord(marks_[part], context_.compute));
  };
  // An event that was never recorded counts as over.
  const auto wait = [&](size_t part) { ADRET_CHECK(cudaEventSynchronize(marks_[part])); };
  for (size_t done = 0; done < bytes;) {
    const Ring::Piece piece = ring_.take(bytes - done, mark, wait);
    std::byte* const pinned = static_cast<std::byte*>(sent_->data()) + piece.offset;
    std::memcpy(pinned, static_cast<const std::byte*>(from) + done, piece.bytes);
    ADRET_CHECK(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, pinned, piece.bytes,
                                cudaMemcpyHostToDevice, context_.compute));
    done += piece.bytes;
  }
}

void Staging::download(void* to, const void* from, size_t bytes) {
  const auto passed = context_.capture_gate.pass("a value is read on the host",
                                                 "read it behind the step, from what that leaves");
  const std::lock_guard lock(mutex_);
  make();
  void* const target = bytes <= small_bytes ? received_->data() : to;
  ADRET_CHECK(cudaMemcpyAsync(target, from, bytes, cudaMemcpyDeviceToHost, context_.compute));
  ADRET_CHECK(cudaStreamSynchronize(context_.compute));
  if (target != to) std::memcpy(to, target, bytes);
}

StreamEvent::StreamEvent(cudaStream_t stream, Kind kind) : kind_(kind) {
  ADRET_CHECK(cudaEventCreateWithFlags(event_.out(), unsigned(kind)));
  ADRET_CHECK(cudaEventRecord(event_, stream));
}

bool StreamEvent::reached() {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

void StreamEvent::wait() { ADRET_CHECK(cudaEventSynchronize(event_)); }

double StreamEvent::seconds_since(DeviceEvent& earlier) {
  auto* begin = dynamic_cast<StreamEvent*>(&earlier);
  if (!begin || kind_ != Kind::time || begin->kind_ != Kind::time) {
    return DeviceEvent::seconds_since(earlier);
  }
  begin->wait();
  wait();
  float milliseconds = 0;
  ADRET_CHECK(cudaEventElapsedTime(&milliseconds, begin->event_, event_));
  return double(milliseconds) * 1e-3;
}

}  // namespace adret::cuda
