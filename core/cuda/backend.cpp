// Routes each kernel to its implementation; the device's memory and copies.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/device.h>
#include <adret/core/cuda/graph_capture.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/memory.h>
#include <adret/core/cuda/nvtx.h>
#include <adret/core/cuda/stopwatch.h>
#include <adret/core/error.h>
#include <adret/core/plugin.h>
#include <fmt/core.h>

#include <cstdlib>
#include <future>
#include <shared_mutex>
#include <string_view>

namespace adret {
namespace {

using cuda::Context;

// Whether each kernel is waited for, so that an error names the one that failed.
bool waits_for_kernels() {
  const char* value = std::getenv("ADRET_CUDA_SYNC");
  const std::string_view text = value ? value : "";
  if (!text.empty() && text != "0" && text != "1") {
    throw DeviceError(
        fmt::format("[cuda] ADRET_CUDA_SYNC={}: use 1 to wait for every kernel, or 0", text));
  }
  return text == "1";
}

MemoryPoolOptions pool_options() {
  MemoryPoolOptions options{.alignment = 512};
  const char* value = std::getenv("ADRET_CUDA_POOL");
  const std::string_view text = value ? value : "";
  if (!text.empty() && text != "on" && text != "off") {
    throw DeviceError(
        fmt::format("[cuda] ADRET_CUDA_POOL={}: use on, or off for memory tools", text));
  }
  options.pass_through = text == "off";
  return options;
}

class CudaBackend final : public Backend, DeviceServices {
 public:
  explicit CudaBackend(int device)
      : context_(device),
        allocator_(device),
        waits_(waits_for_kernels()),
        traces_(cuda::tell_profiler()) {}

  void run(const Kernel& kernel) override {
    make_current();
    const cuda::ProfilerRange range(traces_, traces_ ? kernel_name(kernel) : nullptr);
    try {
      std::visit([this](const auto& call) { cuda::run(context_, call); }, kernel.any());
      if (context_.capture_gate.is_capturing()) {
        context_.capture_gate.end_call();
      } else if (waits_) {
        ADRET_CHECK(cudaStreamSynchronize(context_.compute));
      }
    } catch (const OutOfMemory&) {
      pool_.free_cache();  // for what allocates beside the pool
      throw;
    } catch (const DeviceError& error) {
      const std::string place = current_place();
      throw DeviceError(fmt::format("{}, in the kernel {}{}{}", error.what(), to_string(kernel),
                                    place.empty() ? "" : ", run by ", place));
    }
  }
  DeviceServices& services() override { return *this; }

  MemoryPool& pool() override { return pool_; }

  void copy(void* to, const void* from, size_t bytes, CopyKind kind) override {
    if (bytes == 0) return;
    make_current();
    switch (kind) {
      case CopyKind::host_to_device: return staging_.upload(to, from, bytes);
      case CopyKind::device_to_host: return staging_.download(to, from, bytes);
      case CopyKind::device_to_device: {
        const auto passed =
            pass_gate("memory is copied between devices", "copy it before or behind the step");
        ADRET_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context_.compute));
      }
    }
  }

  void synchronize() override {
    make_current();
    const auto passed = pass_gate("the device is waited for", "wait behind the step");
    ADRET_CHECK(cudaStreamSynchronize(context_.compute));
  }

  std::string report() override { return cuda::report(context_.properties); }

  // -- copies beside the kernels --

  std::unique_ptr<HostBuffer> host_buffer(size_t bytes) override {
    make_current();
    return std::make_unique<cuda::PinnedBuffer>(bytes);
  }
  Moment now() override {
    make_current();
    const auto passed = pass_gate("a moment is taken", "take it behind the step");
    return moment_on(context_.compute);
  }
  Moment upload(std::span<const MemoryCopy> copies, const Moment& after) override {
    return copy_beside(copies, cudaMemcpyHostToDevice, after);
  }
  Moment download(std::span<const MemoryCopy> copies, const Moment& after) override {
    return copy_beside(copies, cudaMemcpyDeviceToHost, after);
  }
  void run_after(const Moment& moment) override {
    make_current();
    const auto passed = pass_gate("kernels are held up for copies", "hold up the whole step");
    wait_on(context_.compute, moment);
  }

  // -- time --

  Moment timestamp() override {
    make_current();
    return Moment(new cuda::StreamEvent(context_.compute, cuda::StreamEvent::Kind::time));
  }
  void hold(double seconds) override {
    make_current();
    cuda::hold(context_, seconds);
  }

  // -- captured work --

  using DeviceServices::capture;
  std::unique_ptr<DeviceGraph> capture(const std::function<void(GraphOrder&)>& work) override {
    make_current();
    try {
      return cuda::capture(context_, pool_, work);
    } catch (const OutOfMemory&) {
      pool_.free_cache();  // for what allocates beside the pool
      throw;
    }
  }

 private:
  std::shared_lock<std::shared_mutex> pass_gate(const char* what, const char* advice) const {
    return context_.capture_gate.pass(what, advice);
  }
  static Moment moment_on(cudaStream_t stream) { return Moment(new cuda::StreamEvent(stream)); }
  static void wait_on(cudaStream_t stream, const Moment& moment) {
    if (!moment) return;
    if (const auto* event = dynamic_cast<const cuda::StreamEvent*>(moment.get())) {
      ADRET_CHECK(cudaStreamWaitEvent(stream, event->get()));
    } else {
      moment->wait();  // another kind of device's
    }
  }
  Moment copy_beside(std::span<const MemoryCopy> copies, cudaMemcpyKind kind, const Moment& after) {
    make_current();
    context_.capture_gate.refuse_capture("a copy beside the kernels is started",
                                         "start it before or behind the step");
    wait_on(context_.copy, after);
    for (const auto& [to, from, bytes] : copies) {
      if (bytes) ADRET_CHECK(cudaMemcpyAsync(to, from, bytes, kind, context_.copy));
    }
    return moment_on(context_.copy);
  }

  // The device of this thread, as the backends left it: custom kernels put back what they change.
  void make_current() {
    static thread_local int current = -1;
    if (current == context_.index) return;
    ADRET_CHECK(cudaSetDevice(context_.index));
    current = context_.index;
  }

  Context context_;
  cuda::DeviceAllocator allocator_;
  MemoryPool pool_{to_string(context_.device()), allocator_, pool_options()};
  cuda::Staging staging_{context_};
  bool waits_, traces_;
};

std::unique_ptr<Backend> make(uint8_t device) {
  if (const std::string problem = cuda::device_problem(cuda::find_driver(), device);
      !problem.empty()) {
    throw DeviceError(problem);
  }
  // What is missing is said now, not at the first convolution; and opening the libraries takes as
  // long as making the context.
  std::future<void> libraries = std::async(std::launch::async, [] {
    cuda::cudnn();
    cuda::cublas();
  });
  auto backend = std::make_unique<CudaBackend>(device);
  libraries.get();
  return backend;
}

}  // namespace

namespace cuda {
void run(Context& context, const kernels::Custom& call) {
  IntrusivePtr<Storage> memory;
  call.kernel->run_cuda(call.with_workspace(context.device(), memory), context.compute);
}
}  // namespace cuda

}  // namespace adret

extern "C" __attribute__((visibility("default")))
const adret::BackendPlugin adret_backend_plugin = {
    .stamp = adret::plugin_stamp(adret::DeviceType::cuda), .make = &adret::make};
