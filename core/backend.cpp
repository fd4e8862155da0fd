// The backends' slots, this thread's decorators, and the way of a kernel call.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/plugin.h>
#include <adret/core/random.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <utility>

namespace adret {
namespace {

constexpr size_t devices_of_a_type = 16;

struct Slot {
  std::unique_ptr<Backend> owned;
  std::atomic<Backend*> ready{nullptr};
  std::mutex loading;  // of this one: a GPU takes half a second, and need not keep the CPU waiting
};
using Slots = std::array<std::array<Slot, devices_of_a_type>, 2>;

// Filled when first asked for; never destroyed, as tensors in static storage may outlive main.
Slots& slots() {
  static Slots* instance = new Slots;
  return *instance;
}

// Throws DeviceError for an index that no device can have.
size_t index_of(Device device) {
  if (device.index >= devices_of_a_type || (device.is_cpu() && device.index != 0)) {
    throw DeviceError("[device] there is no device " + to_string(device) +
                      "; numbers go from 0 to " +
                      std::to_string(device.is_cpu() ? 0 : devices_of_a_type - 1));
  }
  return device.index;
}

Slot& slot_of(Device device) { return slots()[size_t(device.type)][index_of(device)]; }

Backend& load(Device device) {
  Slot& slot = slot_of(device);
  const std::lock_guard lock(slot.loading);
  if (!slot.owned) {
    slot.owned = device.is_cpu() ? load_cpu_backend() : load_cuda_backend(device.index);
  }
  slot.ready = slot.owned.get();
  return *slot.owned;
}

thread_local Decorator* innermost = nullptr;

}  // namespace

Backend& backend_for(Device device) {
  if (device.index < devices_of_a_type) {
    const Slot& slot = slots()[size_t(device.type)][device.index];
    if (Backend* backend = slot.ready.load(std::memory_order_acquire)) [[likely]]
      return *backend;
  }
  return load(device);
}

std::unique_ptr<Backend> set_backend(Device device, std::unique_ptr<Backend> backend) {
  random::release_step_words(device);
  Slot& slot = slot_of(device);
  const std::lock_guard lock(slot.loading);
  slot.ready = backend.get();
  return std::exchange(slot.owned, std::move(backend));
}

std::string device_report(Device device) {
  const std::string report = backend_for(device).services().report();
  return to_string(device) + (report.empty() ? "" : ": " + report);
}

// -- copies that nothing runs beside ----------------------------------------------------

namespace {

class PlainBuffer final : public HostBuffer {
 public:
  explicit PlainBuffer(size_t bytes) : HostBuffer(::operator new(bytes, alignment)) {}
  ~PlainBuffer() override { ::operator delete(data_, alignment); }

 private:
  static constexpr std::align_val_t alignment{64};
};

}  // namespace

std::unique_ptr<HostBuffer> DeviceServices::host_buffer(size_t bytes) {
  try {
    return std::make_unique<PlainBuffer>(bytes);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory("[host_buffer] the host has no room for " + std::to_string(bytes) + " bytes");
  }
}

Moment DeviceServices::upload(std::span<const MemoryCopy> copies, const Moment& after) {
  run_after(after);
  for (const auto& [to, from, bytes] : copies) copy(to, from, bytes, CopyKind::host_to_device);
  return {};
}

Moment DeviceServices::download(std::span<const MemoryCopy> copies, const Moment& after) {
  run_after(after);
  for (const auto& [to, from, bytes] : copies) copy(to, from, bytes, CopyKind::device_to_host);
  return {};
}

void DeviceServices::run_after(const Moment& moment) {
  if (moment) moment->wait();
}

// -- time -------------------------------------------------------------------------------

namespace {

class HostTime final : public DeviceEvent {
 public:
  bool reached() override { return true; }
  void wait() override {}
  double seconds_since(DeviceEvent& earlier) override {
    const auto* begin = dynamic_cast<const HostTime*>(&earlier);
    if (!begin) return DeviceEvent::seconds_since(earlier);
    return std::chrono::duration<double>(at_ - begin->at_).count();
  }

 private:
  const std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

}  // namespace

double DeviceEvent::seconds_since(DeviceEvent&) {
  throw DeviceError(
      "[seconds_since] got moments that hold no time of one device; take both from "
      "its timestamp()");
}

Moment DeviceServices::timestamp() {
  synchronize();
  return Moment(new HostTime);
}

// -- decorators -------------------------------------------------------------------------

Decorator::Decorator() : next_(innermost) { innermost = this; }
Decorator::~Decorator() { innermost = next_; }

bool is_watched() {
  for (const Decorator* one = innermost; one; one = one->next_) {
    if (one->watches()) return true;
  }
  return false;
}

void dispatch(const Kernel& call) {
  Decorator* decorator = innermost;
  if (!decorator) {
    backend_for(device_of(call)).run(call);
    return;
  }
  // While a decorator runs, the next one outwards is the innermost: its own kernels don't recurse.
  struct Restore {
    Decorator* saved = innermost;
    ~Restore() { innermost = saved; }
  } restore;
  innermost = decorator->next_;
  decorator->run(call);
}

void Decorator::forward(const Kernel& call) { dispatch(call); }
void Decorator::host_access(CopyKind, size_t) {}

void tell_host_access(CopyKind kind, size_t bytes) {
  for (Decorator* one = innermost; one; one = one->next_) one->host_access(kind, bytes);
}

void copy_memory(Device device, void* to, const void* from, size_t bytes, CopyKind kind) {
  tell_host_access(kind, bytes);
  backend_for(device).services().copy(to, from, bytes, kind);
}

Device device_of(const Kernel& kernel) {
  return std::visit(
      [](const auto& call) {
        for (const kernels::Operand& output : call.outputs()) {
          if (output.view.defined()) return output.view.device;
        }
        for (const kernels::Operand& input : call.inputs()) {
          if (input.view.defined()) return input.view.device;
        }
        return Device::cpu();
      },
      kernel.any());
}

}  // namespace adret
