// cudaMalloc as a raw allocator; the ring of pinned slots.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/memory.h>

#include <algorithm>
#include <cstring>

namespace adret::cuda {

void* DeviceAllocator::allocate(size_t bytes) noexcept {
  int before = 0;
  void* data = nullptr;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  if (cudaMalloc(&data, bytes) != cudaSuccess) {
    cudaGetLastError();  // out of memory is the pool's to report
    data = nullptr;
  }
  cudaSetDevice(before);
  return data;
}

// Waits for the kernels that may still use it.
void DeviceAllocator::deallocate(void* data, size_t) noexcept { cudaFree(data); }

Staging::Slot& Staging::next_slot() {
  Slot& slot = slots_[next_++ % slots_.size()];
  if (!slot.data) {
    ADRET_CHECK(cudaHostAlloc(slot.data.out(), slot_bytes, cudaHostAllocDefault));
    ADRET_CHECK(cudaEventCreateWithFlags(slot.sent.out(), cudaEventDisableTiming));
  }
  ADRET_CHECK(cudaEventSynchronize(slot.sent));
  return slot;
}

void Staging::upload(void* to, const void* from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += slot_bytes) {
    const size_t part = std::min(slot_bytes, bytes - done);
    Slot& slot = next_slot();
    std::memcpy(slot.data, static_cast<const std::byte*>(from) + done, part);
    ADRET_CHECK(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, slot.data, part,
                                cudaMemcpyHostToDevice, context_.compute));
    ADRET_CHECK(cudaEventRecord(slot.sent, context_.compute));
  }
}

}  // namespace adret::cuda
