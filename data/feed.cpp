// Host buffers, and the copies of batches from them.
#include <adret/core/error.h>
#include <adret/core/tensor_view.h>
#include <adret/data/feed.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace adret {
namespace {

// Copies that a loop which runs ahead of its device leaves behind at most.
constexpr size_t most_copies = 3;

// Where the second tensor of a batch starts in its buffer.
size_t place_behind(const Tensor& first) { return (first.bytes() + 63) / 64 * 64; }

// The tensor's elements in a buffer.
struct Part {
  const Tensor& tensor;
  void* place;
};

// Those of a batch that are copied, in the order of the buffer.
std::array<Part, 2> parts_of(const Batch& batch, const HostBuffer& buffer) {
  auto* start = static_cast<std::byte*>(buffer.data());
  const size_t second = batch.inputs.device().is_cpu() ? place_behind(batch.inputs) : 0;
  return {Part{batch.inputs, start}, Part{batch.targets, start + second}};
}

}  // namespace

std::shared_ptr<HostBuffer> HostBuffers::take(size_t bytes) {
  Sized taken;
  {
    Sized outgrown;  // destroyed behind the lock: releasing pinned memory may wait for the device
    const std::lock_guard lock(mutex_);
    const auto fits =
        std::ranges::find_if(free_, [bytes](const Sized& sized) { return sized.bytes >= bytes; });
    if (fits != free_.end()) {
      taken = std::move(*fits);
      free_.erase(fits);
    } else if (!free_.empty()) {
      outgrown = std::move(free_.back());  // like a last batch's: a larger one takes its place
      free_.pop_back();
    }
  }
  if (!taken.buffer) taken = {services_.host_buffer(bytes), bytes};
  auto owned = std::make_shared<Sized>(std::move(taken));
  HostBuffer* const buffer = owned->buffer.get();
  return {buffer, [owned, home = shared_from_this()](HostBuffer*) {
            const std::lock_guard lock(home->mutex_);
            home->free_.push_back(std::move(*owned));
          }};
}

StagedBatch::StagedBatch(Batch batch, Device device, HostBuffers& buffers)
    : batch_(std::move(batch)) {
  size_t bytes = 0;
  for (const Tensor* tensor : {&batch_.inputs, &batch_.targets}) {
    if (tensor->device().is_cpu()) {
      bytes += place_behind(*tensor);
    } else if (tensor->device() != device) {
      throw DataError(
          fmt::format("[DataLoader] a batch with {} for {}; make it there or on the CPU",
                      to_string(TensorView(*tensor)), to_string(device)));
    }
  }
  if (bytes == 0) return;
  buffer_ = buffers.take(bytes);
  for (const auto& [tensor, place] : parts_of(batch_, *buffer_)) {
    if (tensor.device().is_cpu() && tensor.bytes()) {
      std::memcpy(place, tensor.data(), tensor.bytes());
    }
  }
}

DeviceFeed::~DeviceFeed() {
  for (const auto& [buffer, over] : copying_) {
    try {
      if (over) over->wait();
    } catch (...) {  // the device is lost, and with it what it copied
    }
  }
}

void DeviceFeed::drop_finished() {
  while (!copying_.empty()) {
    const Moment& over = copying_.front().over;
    if (copying_.size() >= most_copies && over) over->wait();
    if (over && !over->reached()) return;
    copying_.pop_front();
  }
}

void DeviceFeed::send(StagedBatch staged) {
  drop_finished();
  if (!staged.buffer_) {
    sent_.push_back({std::move(staged.batch_), {}});
    return;
  }
  Batch there = staged.batch_;
  std::vector<MemoryCopy> copies;
  const auto copied = [&](const Part& part) {
    if (!part.tensor.device().is_cpu()) return part.tensor;
    const Tensor tensor =
        Tensor::empty(part.tensor.shape(), {.dtype = part.tensor.dtype(), .device = device_});
    copies.push_back({.to = tensor.data(), .from = part.place, .bytes = part.tensor.bytes()});
    return tensor;
  };
  const auto parts = parts_of(staged.batch_, *staged.buffer_);
  there.inputs = copied(parts[0]);
  there.targets = copied(parts[1]);
  // Behind everything that may still use the memory just taken.
  const Moment arrival = services_.upload(copies, services_.now());
  copying_.push_back({staged.buffer_, arrival});
  sent_.push_back({std::move(there), arrival});
}

Batch DeviceFeed::receive() {
  Sent sent = std::move(sent_.front());
  sent_.pop_front();
  services_.run_after(sent.there);
  return std::move(sent.batch);
}

}  // namespace adret
