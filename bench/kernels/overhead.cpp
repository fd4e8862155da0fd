// What the library itself costs per call, on a backend that computes nothing: the waist, a
// differentiable function, a node of the backward pass, a pair of pool calls.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

using namespace adret;

class HostAllocator final : public RawAllocator {
 public:
  void* allocate(size_t bytes) noexcept override {
    return std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  }
  void deallocate(void* data, size_t) noexcept override { std::free(data); }
};

class NullBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& call) override { benchmark::DoNotOptimize(&call); }
  DeviceServices& services() override { return *this; }
  MemoryPool& pool() override { return pool_; }
  void copy(void* to, const void* from, size_t bytes, CopyKind) override {
    std::memcpy(to, from, bytes);
  }
  void synchronize() override {}

 private:
  HostAllocator allocator_;
  MemoryPool pool_{"null", allocator_, {.alignment = 512}};
};

// Stands in the slot of the device that this build does not have.
const Device null_device = [] {
  set_backend(Device::cuda(), std::make_unique<NullBackend>());
  return Device::cuda();
}();

Tensor on_null(const Shape& shape) { return Tensor::empty(shape, {.device = null_device}); }

void waist_call(benchmark::State& state) {
  const Tensor x = on_null({64, 28, 28, 1}), w = on_null({6, 5, 5, 1}), b = on_null({6}),
               y = on_null({64, 28, 28, 6});
  const kernels::Conv2dForward call{.x = x, .weight = w, .bias = b, .y = y, .conv = {.padding = 2}};
  for (auto _ : state) run(call);
}
BENCHMARK(waist_call);

void function_without_gradient(benchmark::State& state) {
  const Tensor a = on_null({64, 64}), b = on_null({64, 64});
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(function_without_gradient);

void function_recorded(benchmark::State& state) {
  Tensor a = on_null({64, 64}), b = on_null({64, 64});
  a.set_requires_grad(true);
  for (auto _ : state) benchmark::DoNotOptimize(multiply(a, b));
}
BENCHMARK(function_recorded);

// Forward and backward of a chain, divided by its length.
void function_and_backward_node(benchmark::State& state) {
  constexpr int length = 100;
  Tensor a = on_null({64, 64}), b = on_null({64, 64});
  a.set_requires_grad(true);
  const Tensor seed = on_null({64, 64});
  for (auto _ : state) {
    Tensor y = a;
    for (int i = 0; i < length; ++i) y = multiply(y, b);
    backward({y}, {.grad_outputs = {seed}});
    a.zero_grad();
  }
  state.counters["per_function"] = benchmark::Counter(
      length, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(function_and_backward_node);

void pool_pair(benchmark::State& state) {
  MemoryPool& pool = backend_for(null_device).services().pool();
  const size_t bytes = size_t(state.range(0));
  pool.deallocate(pool.allocate(bytes));
  for (auto _ : state) {
    const MemoryPool::Allocation block = pool.allocate(bytes);
    benchmark::DoNotOptimize(block.data);
    pool.deallocate(block);
  }
}
BENCHMARK(pool_pair)->Arg(512)->Arg(1 << 16)->Arg(1 << 24);

}  // namespace
