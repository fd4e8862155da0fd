// Colours of images on a GPU, a block an image.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda_part.h>
#include <adret/core/kernels/color_plan.h>

namespace adret::cuda {
namespace {

using namespace kernels;

struct Jittering {
  JitterParams params;
  uint32_t key[2], call;
};

__device__ inline Rgb pixel_at(const uint8_t* p) { return {p[0], p[1], p[2]}; }

// Block i jitters image i: once through it for the mean gray level, once for the result.
__global__ void jitter_colors(const uint8_t* x, const int64_t* ids, const int64_t* epoch,
                              uint8_t* y, int64_t pixels,
                              const __grid_constant__ Jittering jittering) {
  begin_kernel();
  __shared__ JitterPlan plan;
  __shared__ unsigned long long sum;
  if (threadIdx.x == 0) {
    const int64_t id = ids ? ids[blockIdx.x] : 0;
    plan = plan_colors(jittering.params, SampleWords(jittering.key[0], jittering.key[1],
                                                     jittering.call, id, epoch ? *epoch : 0));
    sum = 0;
  }
  __syncthreads();
  const uint8_t* const from = x + int64_t(blockIdx.x) * pixels * 3;
  uint8_t* const to = y + int64_t(blockIdx.x) * pixels * 3;
  if (plan.needs_mean()) {
    unsigned long long part = 0;
    for (int64_t i = threadIdx.x; i < pixels; i += blockDim.x) {
      part += unsigned(gray_level(apply_colors(plan, pixel_at(from + 3 * i), true)));
    }
    atomicAdd(&sum, part);  // of integers: the same in any order
    __syncthreads();
    if (threadIdx.x == 0) plan.mean = mean_level(sum, uint64_t(pixels));
    __syncthreads();
  }
  for (int64_t i = threadIdx.x; i < pixels; i += blockDim.x) {
    const Rgb p = apply_colors(plan, pixel_at(from + 3 * i), false);
    to[3 * i] = uint8_t(p.r);
    to[3 * i + 1] = uint8_t(p.g);
    to[3 * i + 2] = uint8_t(p.b);
  }
}

void run(const JitterColors& jitter, const CustomCall& call, cudaStream_t stream) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.numel() == 0) return;
  const auto key = philox_key(jitter.key);
  const Jittering jittering{
      .params = jitter.jitter, .key = {key[0], key[1]}, .call = jitter.key.call};
  jitter_colors<<<unsigned(x.shape[0]), 256, 0, stream>>>(
      x.as<const uint8_t>(), call.inputs[1].as<const int64_t>(), call.inputs[2].as<const int64_t>(),
      y.as<uint8_t>(), x.shape[1] * x.shape[2], jittering);
}

const CudaPart<JitterColors> jitter_colors_part(run);

}  // namespace
}  // namespace adret::cuda
