// A backend runs every kernel of the waist on one type of device. `run` is the one way to compute.
#pragma once

#include <adret/core/device.h>
#include <adret/core/intrusive_ptr.h>
#include <adret/core/memory_pool.h>
#include <adret/core/scope.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace adret {

struct Kernel;  // one call of any kernel, core/kernels/kernel.h

enum class CopyKind { host_to_device, device_to_host, device_to_device };

// A point in a device's work, reached when all that was asked for before it is done.
class DeviceEvent : public RefCounted {
 public:
  virtual bool reached() = 0;
  virtual void wait() = 0;  // the calling thread does, until it is reached
  // By the device's clock, between two moments of its timestamp(), for which the caller waits.
  // Throws DeviceError for other moments.
  virtual double seconds_since(DeviceEvent& earlier);
};
// A null one is reached.
using Moment = IntrusivePtr<DeviceEvent>;

struct MemoryCopy {
  void* to;
  const void* from;
  size_t bytes;
};

// Kernel calls that were kept to be done again and again, on the same operands.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Does them behind all that was run so far; returns when they are on their way. `copies` are the
  // addresses of this launch for the copies that were captured with GraphOrder::copy, all of them
  // in their order and of their sizes.
  virtual void launch(std::span<const MemoryCopy> copies = {}) = 0;
  // What the device runs in a launch: kernels, fills and copies. For reports.
  virtual int64_t nodes() const = 0;
  // Memory that the graph holds for its kernels.
  virtual size_t bytes() const = 0;
};

// What captured work may say of its calls, which otherwise are done one behind the other. Kernel
// calls and copies are counted together, from 0 on.
class GraphOrder {
 public:
  static constexpr int lanes = 2;
  virtual ~GraphOrder() = default;
  // The calls from here on are made in `lane`: behind those of the same lane so far and behind the
  // calls `after`, and beside all others. Work begins in lane 0.
  virtual void lane(int lane, std::span<const size_t> after) = 0;
  // A copy within the device's memory, whose addresses each launch gives anew.
  virtual void copy(const MemoryCopy& copy) = 0;
};

// Host memory that a device can read and write while the host goes on.
class HostBuffer {
 public:
  explicit HostBuffer(void* data) : data_(data) {}
  virtual ~HostBuffer() = default;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() const { return data_; }

 protected:
  void* const data_;
};

// What a device offers beside computing.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  virtual MemoryPool& pool() = 0;
  // Ordered after the kernels run so far; returns when the host side of the copy is done.
  virtual void copy(void* to, const void* from, size_t bytes, CopyKind kind) = 0;
  // Returns when everything run so far is done.
  virtual void synchronize() = 0;
  // One line for the start of a run: the device, versions and paths of what it uses, and what is
  // unusual about them.
  virtual std::string report() { return {}; }

  // -- copies beside the kernels, for input that is made ahead -----------------------------------
  // Note [Copies beside kernels]
  // upload and download go over a queue of their own. A batch, with two buffers in turn:
  //   Moment there = services.upload(copies, last_use);  // from host buffers to device memory
  //   services.run_after(there);                         // kernels from here on find it
  //   ... kernels that read the memory ...
  //   last_use = services.now();                         // the next upload into it waits for this
  // A host buffer may be written again once the moment of its upload is reached. Memory that the
  // pool gives out may still be in use by kernels that were run before: `after` must not be older
  // than the allocation. Unless a device overrides them, these copy at once.

  // Any thread may ask for one. Throws OutOfMemory.
  virtual std::unique_ptr<HostBuffer> host_buffer(size_t bytes);
  // Behind all kernels and copies run so far.
  virtual Moment now() { return {}; }
  // Start when `after` is reached; the host's side lies in host buffers. Return the end of the last
  // copy, up to which both sides must stay and be left alone.
  virtual Moment upload(std::span<const MemoryCopy> copies, const Moment& after);
  virtual Moment download(std::span<const MemoryCopy> copies, const Moment& after);
  // What is run from now on waits for `moment`; the caller does not.
  virtual void run_after(const Moment& moment);

  // -- captured work -----------------------------------------------------------------------------
  // Calls `work` and keeps the kernel calls that this thread makes on this device meanwhile,
  // without computing them: their operands must stay where they are as long as the graph. What is
  // allocated meanwhile, as scratch memory of kernels, comes from memory that the graph holds. Null
  // where a device has no graphs: `work` is not called then, and whoever replays it calls it each
  // time. The same calls must have been run once before, in the same compute mode, as nothing is
  // chosen or measured meanwhile. On this device `work` must not copy from or to the host, wait,
  // capture or launch: that throws DeviceError saying what and where. Whatever leaves `work`,
  // nothing is kept then and the device stays usable. Throws OutOfMemory too.
  virtual std::unique_ptr<DeviceGraph> capture(
      [[maybe_unused]] const std::function<void(GraphOrder&)>& work) {
    return {};
  }
  std::unique_ptr<DeviceGraph> capture(const std::function<void()>& work) {
    return capture([&](GraphOrder&) { work(); });
  }

  // -- time ------------------------------------------------------------------------------------

  // now() for seconds_since. Unless a device overrides it, it waits and reads the host's clock.
  virtual Moment timestamp();
  // Lets the host get ahead: what is run from now on starts no sooner than in so many seconds, and
  // then without gaps. Nothing on a device that computes while the caller waits.
  virtual void hold(double /*seconds*/) {}
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Outputs are allocated and checked by the caller. On CUDA by one thread: plans and library
  // handles are not locked.
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

// "cuda:0: NVIDIA H200, ...": what runs there, with versions and paths, in one line. Throws
// DeviceError as backend_for does.
std::string device_report(Device device);

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
  // Is told before this thread reads or writes a device's memory from the host, which no kernel
  // does.
  virtual void host_access(CopyKind kind, size_t bytes);
  // Whether it wants to see calls now. Where none does, many may be made in one launch.
  virtual bool watches() const { return true; }

 protected:
  void forward(const Kernel& call);

 private:
  friend void dispatch(const Kernel& call);
  friend void tell_host_access(CopyKind kind, size_t bytes);
  friend bool is_watched();
  Decorator* next_;
};

// Whether a decorator of this thread watches.
bool is_watched();
// Runs a call through this thread's decorators on the backend of its operands' device.
void dispatch(const Kernel& call);
// Copies between a device and the host, as DeviceServices::copy, under the eyes of this thread's
// decorators. Tensors do so; the services by themselves are for copies that belong to no
// computation.
void copy_memory(Device device, void* to, const void* from, size_t bytes, CopyKind kind);
// For memory that the host reads or writes without a copy.
void tell_host_access(CopyKind kind, size_t bytes);

}  // namespace adret
