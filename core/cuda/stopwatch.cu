// Timing by events, behind a kernel that waits.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/stopwatch.h>

namespace adret::cuda {
namespace {

__global__ void wait_for(uint64_t nanoseconds) {
  begin_kernel();
  const auto now = [] {
    uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
  };
  const uint64_t start = now();
  while (now() - start < nanoseconds) {
  }
}

// Enough for the host to launch a few kernels.
constexpr double short_hold = 50e-6;

}  // namespace

void hold(const Context& context, double seconds) {
  launch(context, wait_for, Grid{.blocks = 1, .threads = 1},
         uint64_t(std::max(seconds, 0.0) * 1e9));
}

Stopwatch::Stopwatch(Context& context) : context_(context) {
  ADRET_CHECK(cudaEventCreate(start_.out()));
  ADRET_CHECK(cudaEventCreate(stop_.out()));
}

void Stopwatch::begin(int runs) {
  constexpr int runs_a_hold = 3;
  for (int held = 0; held < runs; held += runs_a_hold) hold(context_, short_hold);
  ADRET_CHECK(cudaEventRecord(start_, context_.compute));
}

double Stopwatch::end() {
  ADRET_CHECK(cudaEventRecord(stop_, context_.compute));
  ADRET_CHECK(cudaEventSynchronize(stop_));
  float milliseconds = 0;
  ADRET_CHECK(cudaEventElapsedTime(&milliseconds, start_, stop_));
  return double(milliseconds) * 1000;
}

}  // namespace adret::cuda
