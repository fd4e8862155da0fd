// Memory and copies of a device: private pools for a scope, and copies beside the kernels.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/storage.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

MemoryPool& pool_of(Device device) { return backend_for(device).services().pool(); }

TEST(PoolScope, GivesThisThreadsTensorsOfOneDeviceMemoryOfItsPool) {
  ADRET_CPU_ONLY("counts the blocks of a pool of its own");
  const SecondDevice second;
  const Device cuda = Device::cuda();
  const std::unique_ptr<MemoryPool> step = pool_of(cuda).make_private("step");
  const std::unique_ptr<MemoryPool> inner_pool = pool_of(cuda).make_private("inner");
  Tensor kept;
  {
    const PoolScope scope(cuda, *step);
    kept = Tensor::empty({100}, {.device = cuda});
    EXPECT_EQ(step->stats().current, 512u);
    const Tensor elsewhere = Tensor::empty({100});
    EXPECT_EQ(step->stats().allocations, 1);
    {
      const PoolScope inner(cuda, *inner_pool);
      const Tensor x = Tensor::empty({100}, {.device = cuda});
      EXPECT_EQ(inner_pool->stats().current, 512u);
    }
    std::thread([&] { EXPECT_EQ(&pool_for(cuda), &pool_of(cuda)); }).join();
    EXPECT_EQ(&pool_for(cuda), step.get());
  }
  const Tensor after = Tensor::empty({100}, {.device = cuda});
  EXPECT_EQ(step->stats().allocations, 1);
  EXPECT_EQ(pool_of(cuda).stats().allocations, 1);
  kept = Tensor();  // back to where it came from
  EXPECT_EQ(step->stats().current, 0u);
}

TEST(PoolScope, ItsTensorsMayOutliveThePool) {
  const SecondDevice second;
  const Device cuda = Device::cuda();
  std::unique_ptr<MemoryPool> step = pool_of(cuda).make_private("step");
  Tensor kept;
  {
    const PoolScope scope(cuda, *step);
    kept = Tensor::from({1.0f, 2.0f}, {2}, cuda);
  }
  step.reset();
  EXPECT_EQ(kept.to_vector(), (std::vector<float>{1, 2}));
}

// The protocol of Note [Copies beside kernels], with two buffers in turn.
void upload_in_turn(Device device) {
  DeviceServices& services = backend_for(device).services();
  constexpr size_t bytes = 1000 * sizeof(float);
  struct Buffer {
    std::unique_ptr<HostBuffer> host;
    Tensor device;
    Moment uploaded, last_use;
  };
  std::array<Buffer, 2> buffers;
  for (Buffer& buffer : buffers) {
    buffer.host = services.host_buffer(bytes);
    buffer.device = Tensor::empty({1000}, {.device = device});
    buffer.last_use = services.now();
  }
  std::vector<Tensor> seen;
  for (int step = 0; step < 8; ++step) {
    Buffer& buffer = buffers[size_t(step % 2)];
    if (buffer.uploaded) buffer.uploaded->wait();  // before the host memory is written again
    for (size_t i = 0; i < 1000; ++i)
      static_cast<float*>(buffer.host->data())[i] = float(step * 1000) + float(i);
    const std::array copies{MemoryCopy{buffer.device.data(), buffer.host->data(), bytes}};
    buffer.uploaded = services.upload(copies, buffer.last_use);
    services.run_after(buffer.uploaded);
    seen.push_back(buffer.device.clone());
    buffer.last_use = services.now();
  }
  const std::unique_ptr<HostBuffer> back = services.host_buffer(bytes);
  for (int step = 0; step < 8; ++step) {
    const std::array copies{MemoryCopy{back->data(), seen[size_t(step)].data(), bytes}};
    const Moment there = services.download(copies, services.now());
    if (there) {
      there->wait();
      EXPECT_TRUE(there->reached());
    }
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(static_cast<const float*>(back->data())[i], float(step * 1000) + float(i));
    }
  }
}

TEST(CopiesBesideKernels, ArriveOnTheCpu) { upload_in_turn(Device::cpu()); }

TEST(CopiesBesideKernels, ArriveOnASecondDevice) {
  const SecondDevice second;
  upload_in_turn(Device::cuda());
}

TEST(CopiesBesideKernels, ArriveOnTheCudaDeviceIfThereIsOne) {
  std::string why;
  if (Device::best(&why).is_cpu()) GTEST_SKIP() << why;
  upload_in_turn(Device::cuda());
}

TEST(CopiesBesideKernels, SayWhenTheHostHasNoRoomForABuffer) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer ends the process where operator new would throw";
#endif
  expect_error<OutOfMemory>(
      [] { return backend_for(Device::cpu()).services().host_buffer(size_t(1) << 62); },
      "4611686018427387904 bytes");
}

// Waiting is all that a device without a queue of its own does with a moment of another one.
TEST(CopiesBesideKernels, WaitForTheMomentOfAnotherDevice) {
  struct Other final : DeviceEvent {
    explicit Other(int& waits) : waits(waits) {}
    bool reached() override { return true; }
    void wait() override { ++waits; }
    int& waits;
  };
  int waits = 0;
  DeviceServices& services = backend_for(Device::cpu()).services();
  const Moment moment(new Other(waits));
  services.run_after(moment);
  float to = 0, from = 3;
  const std::array copies{MemoryCopy{&to, &from, sizeof(float)}};
  services.upload(copies, moment);
  EXPECT_EQ(to, 3);
  services.download(copies, moment);
  EXPECT_EQ(waits, 3);
}

// -- time ----------------------------------------------------------------------------------------

TEST(Timestamp, GoesOnWhileADeviceIsHeld) {
  const SecondDevice second;
  for (const Device device : {Device::cpu(), Device::cuda()}) {
    DeviceServices& services = backend_for(device).services();
    const Moment begin = services.timestamp();
    services.hold(2e-3);
    const Moment end = services.timestamp();
    const bool holds = !device.is_cpu() && test_device() == TestDevice::cuda;
    EXPECT_GE(end->seconds_since(*begin), holds ? 2e-3 : 0) << device;
  }
}

TEST(Timestamp, IsNotToBeHadOfOtherMoments) {
  struct Other final : DeviceEvent {
    bool reached() override { return true; }
    void wait() override {}
  };
  const Moment other(new Other), time = backend_for(Device::cpu()).services().timestamp();
  for (const auto& [later, earlier] : {std::pair(other, time), std::pair(time, other)}) {
    expect_error<DeviceError>([&] { return later->seconds_since(*earlier); },
                              "[seconds_since] got moments that hold no time of one device");
  }
}

}  // namespace
}  // namespace adret
