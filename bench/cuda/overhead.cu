// What an eager function costs on the host beside the bare launch of a kernel that does nothing:
// microseconds a call, the median of many blocks.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/backend.h>
#include <adret/core/tensor.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

using namespace adret;

__global__ void nothing() {}

// Microseconds a call. Blocks are short enough that the launch queue never fills.
template <class F>
double median_of_blocks(F&& call) {
  constexpr int blocks = 201, calls = 200;
  DeviceServices& services = backend_for(Device::cuda()).services();
  std::vector<double> times;
  for (int block = 0; block < blocks; ++block) {
    services.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> elapsed =
        std::chrono::steady_clock::now() - begin;
    times.push_back(elapsed.count() / calls);
  }
  std::nth_element(times.begin(), times.begin() + blocks / 2, times.end());
  return times[blocks / 2];
}

void report(const char* name, double us, double launch) {
  std::printf("| %-28s | %6.2f | %6.2f |\n", name, us, us - launch);
}

}  // namespace

int main() {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Tensor a = Tensor::ones({64, 64}, {.device = Device::cuda()}),
         b = Tensor::ones({64, 64}, {.device = Device::cuda()});
  const double launch = median_of_blocks([&] { nothing<<<1, 32, 0, stream>>>(); });
  std::printf("| call | us | us beyond the launch |\n|---|---|---|\n");
  report("bare launch", launch, launch);
  report("relu, not recorded", median_of_blocks([&] { relu(a); }), launch);
  report("multiply, not recorded", median_of_blocks([&] { multiply(a, b); }), launch);
  a.set_requires_grad(true);
  report("relu, recorded", median_of_blocks([&] { relu(a); }), launch);
  report("multiply, recorded", median_of_blocks([&] { multiply(a, b); }), launch);
  cudaStreamDestroy(stream);
}
