// The backends' slots, this thread's decorators and names, and the way of a kernel call.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/plugin.h>
#include <adret/core/random.h>

#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace adret {
namespace {

constexpr size_t devices_of_a_type = 16;

// Made when first asked for; never destroyed, as tensors in static storage may outlive main.
struct Slots {
  std::array<std::array<std::unique_ptr<Backend>, devices_of_a_type>, 2> owned;
  std::array<std::array<std::atomic<Backend*>, devices_of_a_type>, 2> ready{};
  std::mutex loading;
};

Slots& slots() {
  static Slots* instance = new Slots;
  return *instance;
}

// Throws DeviceError for an index that no device can have.
size_t index_of(Device device) {
  if (device.index >= devices_of_a_type || (device.is_cpu() && device.index != 0)) {
    throw DeviceError("[device] there is no device " + to_string(device) + " number " +
                      std::to_string(device.index));
  }
  return device.index;
}

Backend& load(Device device) {
  const size_t type = size_t(device.type), index = index_of(device);
  const std::lock_guard lock(slots().loading);
  std::unique_ptr<Backend>& backend = slots().owned[type][index];
  if (!backend) backend = device.is_cpu() ? load_cpu_backend() : load_cuda_backend(device.index);
  slots().ready[type][index] = backend.get();
  return *backend;
}

thread_local Decorator* innermost = nullptr;
thread_local std::vector<const char*> names;

}  // namespace

Backend& backend_for(Device device) {
  if (device.index < devices_of_a_type) {
    Backend* backend =
        slots().ready[size_t(device.type)][device.index].load(std::memory_order_acquire);
    if (backend) [[likely]]
      return *backend;
  }
  return load(device);
}

std::unique_ptr<Backend> set_backend(Device device, std::unique_ptr<Backend> backend) {
  random::release_step_words(device);
  const size_t type = size_t(device.type), index = index_of(device);
  const std::lock_guard lock(slots().loading);
  slots().ready[type][index] = backend.get();
  return std::exchange(slots().owned[type][index], std::move(backend));
}

Decorator::Decorator() : next_(innermost) { innermost = this; }
Decorator::~Decorator() { innermost = next_; }

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

NameScope::NameScope(const char* name) { names.push_back(name); }
NameScope::~NameScope() { names.pop_back(); }

std::string NameScope::path() {
  std::string path;
  for (const char* name : names) path += (path.empty() ? "" : "/") + std::string(name);
  return path;
}

}  // namespace adret
