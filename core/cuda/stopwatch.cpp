// Timing by events, behind a kernel that waits.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/matmul_plan.h>
#include <adret/core/cuda/stopwatch.h>

namespace adret::cuda {

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
