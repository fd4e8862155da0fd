// The backends' slots, this thread's decorators and names, and the way of a kernel call.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/plugin.h>
#include <adret/core/random.h>

#include <array>
#include <utility>
#include <vector>

namespace adret {
namespace {

struct Slots {
  std::array<std::unique_ptr<Backend>, 2> backend;
  Slots() { backend[size_t(DeviceType::cpu)] = load_cpu_backend(); }
};

// Never destroyed: tensors in static storage may outlive main.
Slots& slots() {
  static Slots* instance = new Slots;
  return *instance;
}

thread_local Decorator* innermost = nullptr;
thread_local std::vector<const char*> names;

}  // namespace

Backend& backend_for(Device device) {
  Backend* backend = slots().backend[size_t(device.type)].get();
  if (!backend) {
    throw DeviceError("[device] " + to_string(device) +
                      " has no backend: this build runs on the CPU only; use Device::cpu()");
  }
  return *backend;
}

std::unique_ptr<Backend> set_backend(DeviceType type, std::unique_ptr<Backend> backend) {
  random::release_step_words(type);
  return std::exchange(slots().backend[size_t(type)], std::move(backend));
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
