// Timing by events, behind a kernel that waits.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/stopwatch.h>

namespace adret::cuda {
namespace {

__global__ void wait_for(int64_t cycles) {
  const int64_t start = clock64();
  while (clock64() - start < cycles) {
  }
}

// Some 50 us, in which the host launches a few kernels that then run without gaps.
void hold(Context& context) {
  launch(context, wait_for, Grid{.blocks = 1, .threads = 1}, int64_t(80'000));
}

}  // namespace

Stopwatch::Stopwatch(Context& context) : context_(context) {
  ADRET_CHECK(cudaEventCreate(start_.out()));
  ADRET_CHECK(cudaEventCreate(stop_.out()));
}

void Stopwatch::begin(int runs) {
  constexpr int runs_a_hold = 3;
  for (int held = 0; held < runs; held += runs_a_hold) hold(context_);
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
