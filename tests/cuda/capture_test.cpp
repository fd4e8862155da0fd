// What a capture keeps apart: the thread that captures from all others; and kernels that break it.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/backend.h>
#include <adret/core/cuda/capture_gate.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/scope.h>
#include <adret/core/tensor.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <vector>

#include "on_gpu.h"
#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using cuda::CaptureGate;
using test::expect_error;

bool is_over(const std::future<void>& work) {
  return work.wait_for(std::chrono::milliseconds(30)) == std::future_status::ready;
}

TEST(CaptureGate, RefusesTheThreadThatCaptures) {
  CaptureGate gate;
  gate.pass("a value is read", "read it later");
  {
    const CaptureGate::Turn turn(gate);
    EXPECT_TRUE(gate.is_capturing());
    const auto pass = [&] { return gate.pass("a value is read", "read it later").owns_lock(); };
    EXPECT_EQ(test::thrown<DeviceError>(pass),
              "[capture] a value is read inside a captured step; read it later");
    const FunctionScope scope("item");
    expect_error<DeviceError>(pass, "inside a captured step, by item; read it later");
  }
  EXPECT_FALSE(gate.is_capturing());
  EXPECT_TRUE(gate.pass("a value is read", "read it later").owns_lock());
}

TEST(CaptureGate, TakesOneCaptureAtATime) {
  CaptureGate gate;
  {
    int calls = 0;
    const CaptureGate::Turn turn(gate, [&] { ++calls; });
    expect_error<DeviceError>([&] { return CaptureGate::Turn(gate), 0; },
                              "[capture] a step is captured inside a captured step");
    gate.end_call();
    gate.end_call();
    EXPECT_EQ(calls, 2);
  }
  const CaptureGate::Turn next(gate);
  EXPECT_TRUE(gate.is_capturing());
}

TEST(CaptureGate, LetsOtherThreadsWaitUntilItIsOver) {
  CaptureGate gate;
  std::optional<CaptureGate::Turn> turn(gate);
  const std::future<void> copy = std::async(std::launch::async, [&] {
    EXPECT_FALSE(gate.is_capturing());
    gate.refuse_capture("a copy is started", "start it later");
    gate.pass("a value is read", "read it later");
  });
  EXPECT_FALSE(is_over(copy));
  turn.reset();
  copy.wait();
}

TEST(CaptureGate, LetsACaptureWaitForWhatPassed) {
  CaptureGate gate;
  auto passed = gate.pass("a value is read", "read it later");
  const std::future<void> capture =
      std::async(std::launch::async, [&] { const CaptureGate::Turn turn(gate); });
  EXPECT_FALSE(is_over(capture));
  passed.unlock();
  capture.wait();
}

// -- on a GPU ------------------------------------------------------------------------------------

// Waits for its stream, which no capture can have.
struct WaitingKernel {
  static constexpr const char* name = "waiting";
  bool operator==(const WaitingKernel&) const = default;
  void run_cpu(const CustomCall&) const {}
  void run_cuda(const CustomCall&, void* stream) const {
    if (waits) cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    cudaGetLastError();
  }
  bool waits = true;
};

using Capture = cuda::OnGpu<>;
TEST_F(Capture, NamesTheKernelThatBreaksIt) {
  const test::MirrorPause pause;
  const NoGrad guard;
  const Device device = Device::cuda();
  DeviceServices& services = backend_for(device).services();
  const Tensor y = Tensor::zeros({3}, {.device = device});
  WaitingKernel kernel;
  const auto work = [&] {
    fill_(y, 5);
    run_custom(kernel, {}, {y});
    fill_(y, 6);
  };
  work();
  const std::string text =
      test::thrown<DeviceError>([&] { return services.capture(work) != nullptr; });
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "[capture] kernel 2 of a captured step", text);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "in the kernel waiting", text);
  kernel.waits = false;
  const auto graph = services.capture(work);
  EXPECT_EQ(graph->nodes(), 2);
  fill_(y, 1);
  graph->launch();
  EXPECT_EQ(y.to_vector(), (std::vector<float>{6, 6, 6}));
}

}  // namespace
}  // namespace adret
