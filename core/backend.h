// A backend runs every kernel of the waist on one type of device. `run` is the one way to compute.
#pragma once

#include <adret/core/device.h>
#include <adret/core/memory_pool.h>

#include <memory>
#include <string>

namespace adret {

struct Kernel;  // one call of any kernel, core/kernels/kernel.h

enum class CopyKind { host_to_device, device_to_host, device_to_device };

// What a device offers beside computing.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  virtual MemoryPool& pool() = 0;
  // Ordered after the kernels run so far; returns when the host side of the copy is done.
  virtual void copy(void* to, const void* from, size_t bytes, CopyKind kind) = 0;
  // Returns when everything run so far is done.
  virtual void synchronize() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Outputs are allocated and checked by the caller.
  virtual void run(const Kernel& call) = 0;
  virtual DeviceServices& services() = 0;
};

// The device's backend, loaded when first asked for. Throws DeviceError, saying why, when it cannot
// be used.
Backend& backend_for(Device device);
// Puts a backend in a device's slot and returns the one that was there (null: none yet); null
// empties the slot, so that the next use loads the device's own. Tensors of the old one must be
// gone.
std::unique_ptr<Backend> set_backend(Device device, std::unique_ptr<Backend> backend);

// The instruction set of the CPU kernels in use, for reports: "x86-64-v3".
std::string cpu_arch();

// Sees every kernel call of this thread while it is the innermost one: forward() runs the call
// on, through the next decorator outwards and at last the backend. Profilers, recorders and
// checks are decorators; nothing else hooks into the library.
class Decorator {
 public:
  Decorator();
  virtual ~Decorator();
  Decorator(const Decorator&) = delete;
  Decorator& operator=(const Decorator&) = delete;
  virtual void run(const Kernel& call) = 0;

 protected:
  void forward(const Kernel& call);

 private:
  friend void dispatch(const Kernel& call);
  Decorator* next_;
};

// Runs a call through this thread's decorators on the backend of its operands' device.
void dispatch(const Kernel& call);

// A name on this thread's stack of functions and modules, for reports ("fit/lenet/conv1/conv2d").
class NameScope {
 public:
  explicit NameScope(const char* name);  // must outlive the scope
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  static std::string path();
};

}  // namespace adret
