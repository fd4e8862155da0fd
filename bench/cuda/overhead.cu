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
#include <functional>
#include <vector>

namespace {

using namespace adret;

__global__ void nothing() {}

struct Case {
  const char* name;
  std::function<void()> call;
  std::vector<double> times;  // microseconds a call, of each block

  double median() {
    std::nth_element(times.begin(), times.begin() + long(times.size() / 2), times.end());
    return times[times.size() / 2];
  }
};

// Blocks of calls, short enough that the launch queue never fills, of the cases in turn, so that
// what slows the machine for a while slows all of them.
void measure(std::vector<Case>& cases) {
  constexpr int blocks = 301, calls = 200;
  DeviceServices& services = backend_for(Device::cuda()).services();
  for (int block = 0; block < blocks; ++block) {
    for (Case& each : cases) {
      services.synchronize();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < calls; ++i) each.call();
      const std::chrono::duration<double, std::micro> elapsed =
          std::chrono::steady_clock::now() - begin;
      each.times.push_back(elapsed.count() / calls);
    }
  }
}

}  // namespace

int main() {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const Tensor a = Tensor::ones({64, 64}, {.device = Device::cuda()}), b = a.clone();
  Tensor leaf = a.clone();
  leaf.set_requires_grad(true);
  std::vector<Case> cases = {{"bare launch", [&] { nothing<<<1, 32, 0, stream>>>(); }, {}},
                             {"relu, not recorded", [&] { relu(a); }, {}},
                             {"multiply, not recorded", [&] { multiply(a, b); }, {}},
                             {"relu, recorded", [&] { relu(leaf); }, {}},
                             {"multiply, recorded", [&] { multiply(leaf, b); }, {}}};
  measure(cases);
  const double launch = cases[0].median();
  std::printf("| call | us | us beyond the launch |\n|---|--:|--:|\n");
  for (Case& each : cases) {
    std::printf("| %s | %.2f | %.2f |\n", each.name, each.median(), each.median() - launch);
  }
  cudaStreamDestroy(stream);
}
