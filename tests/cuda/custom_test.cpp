// A user's custom kernel with a CUDA part that nvcc compiles in a file of its own.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/train/step.h>

#include <algorithm>

#include "on_gpu.h"
#include "tests/cuda/custom_kernels.h"
#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/second_device_test.h"

namespace adret::test {

size_t MovingMean::workspace_bytes(const CustomCall& call) const {
  return size_t(call.inputs[0].numel() + 1) * sizeof(double);
}

void MovingMean::run_cpu(const CustomCall& call) const {
  const int64_t n = call.inputs[0].numel();
  auto* const sums = static_cast<double*>(call.workspace);
  sums[0] = 0;
  for (int64_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + double(call.inputs[0].as<float>()[i]);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = std::max<int64_t>(0, i - radius), end = std::min(n, i + radius + 1);
    call.outputs[0].as<float>()[i] = float((sums[end] - sums[begin]) / double(end - begin));
  }
}

namespace {

Tensor moving_mean(const Tensor& x, int radius, int threads = 128) {
  const Tensor y = Tensor::empty(x.shape(), {.device = x.device()});
  run_custom(MovingMean{.radius = radius, .threads = threads}, {x}, {y});
  return y;
}

TEST(CustomOfNvcc, HasItsCudaPartWithoutAGpu) {
  EXPECT_TRUE(has_cuda_part(CustomKernelOf(MovingMean())));
}

TEST(CustomOfNvcc, RunsOnTheCpu) {
  const Tensor x = Tensor::from({1.f, 2.f, 6.f, 0.f}, {4});
  EXPECT_EQ(moving_mean(x, 1).to_vector(), (std::vector<float>{1.5f, 3, 8.f / 3, 3}));
}

struct CustomOnGpu : cuda::OnGpu<> {
  MirrorPause pause;
};

TEST_F(CustomOnGpu, RunsItsCudaPart) {
  for (const int64_t n : {1, 5, 1000}) {
    const Tensor x = sequence({n}).to(DType::f32);
    const Tensor y = moving_mean(x.to(Device::cuda()), 2);
    EXPECT_EQ(y.device(), Device::cuda());
    expect_alike(y, moving_mean(x, 2), 1e-6, "the mean");
  }
}

TEST_F(CustomOnGpu, NamesItselfWhereTheLaunchFails) {
  const Tensor x = Tensor::ones({8}, {.device = Device::cuda()});
  expect_error<DeviceError>([&] { return moving_mean(x, 1, 4096); },
                            "[moving_mean] its kernel could not be launched: ");
  expect_alike(moving_mean(x, 1), Tensor::ones({8}), 0, "the next call");
}

TEST_F(CustomOnGpu, IsCapturedWithItsWorkspace) {
  Step step([](const Tensor& x) { return moving_mean(x * 2, 1); }, {.mode = StepMode::graph});
  for (int i = 1; i < 7; ++i) {
    const Tensor x = Tensor::full({100}, i, {.device = Device::cuda()});
    expect_alike(step(x), Tensor::full({100}, 2 * i), 0, "step " + std::to_string(i));
  }
  EXPECT_TRUE(step.report().captured) << step.report().reason;
  EXPECT_GE(step.report().scratch_bytes, 101 * sizeof(double));
}

}  // namespace
}  // namespace adret::test
