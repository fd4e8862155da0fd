// The CUDA part of a custom kernel, as a user's file has it.
#include "tests/cuda/custom_kernels.h"

#include <adret/core/cuda_part.h>

namespace adret::test {
namespace {

__global__ void sum_before(const float* x, double* sums, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    sums[i] = sum;
    sum += x[i];
  }
  sums[n] = sum;
}

__global__ void mean_around(const double* sums, float* y, int64_t n, int64_t radius) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64_t begin = i < radius ? 0 : i - radius, end = i + radius < n ? i + radius + 1 : n;
  y[i] = float((sums[end] - sums[begin]) / double(end - begin));
}

void run(const MovingMean& kernel, const CustomCall& call, cudaStream_t stream) {
  const int64_t n = call.inputs[0].numel();
  auto* const sums = static_cast<double*>(call.workspace);
  sum_before<<<1, 1, 0, stream>>>(call.inputs[0].as<float>(), sums, n);
  const unsigned blocks = unsigned((n + kernel.threads - 1) / kernel.threads);
  mean_around<<<blocks, unsigned(kernel.threads), 0, stream>>>(sums, call.outputs[0].as<float>(), n,
                                                               kernel.radius);
}

const CudaPart<MovingMean> moving_mean_part(run);

}  // namespace
}  // namespace adret::test
