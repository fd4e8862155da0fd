// Swish as a formula on a GPU: beside a copy and the built-in SiLU, forward and backward.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/pointwise.h>
#include <adret/core/kernels/kernel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

using namespace adret;

struct Swish {
  ADRET_FN auto operator()(auto x) const { return x / (1 + exp(-x)); }
};

// Microseconds of a call: the median of 15 blocks of 20. timing.h wants fmt, which nvcc refuses.
double eager(const std::function<void()>& call) {
  DeviceServices& services = backend_for(Device::cuda()).services();
  std::vector<double> times;
  for (int block = 0; block < 16; ++block) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) call();
    services.synchronize();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (block > 0) times.push_back(taken.count() / 20 * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

void report(const char* what, DType dtype, int64_t bytes, double us) {
  std::printf("%-22s %-5s %9.1f us %8.1f GB/s\n", what, name(dtype), us, double(bytes) / us * 1e-3);
}

void measure(DType dtype, int64_t n) {
  const int64_t bytes = n * int64_t(size_of(dtype));
  Tensor x = randn({n}).to(Device::cuda()).to(dtype);
  const Tensor dy = x.clone(), copy = x.clone();
  report("copy", dtype, 2 * bytes, eager([&] { run(kernels::Copy{.x = x, .y = copy}); }));
  {
    const NoGrad no_grad;
    report("silu", dtype, 2 * bytes, eager([&] { silu(x); }));
    report("formula", dtype, 2 * bytes, eager([&] { pointwise(Swish{}, x); }));
  }
  x.set_requires_grad(true);
  const auto backward = [&](const char* what, const Tensor& y) {
    const GradOptions options{.grad_outputs = {dy}, .retain_graph = true};
    report(what, dtype, 3 * bytes, eager([&] { grad({y}, {x}, options); }));
  };
  backward("silu backward", silu(x));
  backward("formula backward", pointwise(Swish{}, x));
}

}  // namespace

int main() {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t n : {int64_t(1) << 20, int64_t(1) << 26}) measure(dtype, n);
  }
}
