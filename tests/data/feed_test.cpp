// Batches on their way to another device: the order of copies and kernels, buffers used again,
// errors and early ends.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/data/feed.h>
#include <adret/data/image_dataset.h>
#include <adret/data/loader.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fake_allocator.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

// A device whose copies beside the kernels are made as late as they may be: when something waits
// for them. What was written too early, or read too early, comes out wrong.
class LateBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& call) override {
    log.push_back(kernel_name(call));
    backend_for(Device::cpu()).run(call);
  }
  DeviceServices& services() override { return *this; }
  MemoryPool& pool() override { return pool_; }
  void copy(void* to, const void* from, size_t bytes, CopyKind) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void synchronize() override {}

  std::unique_ptr<HostBuffer> host_buffer(size_t bytes) override {
    ++buffers;
    if (!on_release) return DeviceServices::host_buffer(bytes);
    return std::make_unique<Watched>(DeviceServices::host_buffer(bytes), on_release);
  }
  Moment now() override {
    return Moment(new Later([] {}));
  }
  Moment upload(std::span<const MemoryCopy> copies, const Moment& after) override {
    EXPECT_TRUE(after) << "memory from the pool may be in use";
    if (fail_uploads) throw DeviceError("[fake] the copy was refused");
    const int number = uploads++;
    log.push_back(fmt::format("upload {}", number));
    const std::vector<MemoryCopy> list(copies.begin(), copies.end());
    return Moment(new Later([this, number, list] {
      log.push_back(fmt::format("copied {}", number));
      for (const auto& [to, from, bytes] : list) std::memcpy(to, from, bytes);
    }));
  }

  std::function<void()> on_release;  // of the host buffers made from now on
  std::vector<std::string> log;
  std::atomic<int> buffers = 0;
  int uploads = 0;
  bool fail_uploads = false;

 private:
  struct Watched final : HostBuffer {
    Watched(std::unique_ptr<HostBuffer> memory, std::function<void()> callback)
        : HostBuffer(memory->data()), memory(std::move(memory)), callback(std::move(callback)) {}
    ~Watched() override { callback(); }
    std::unique_ptr<HostBuffer> memory;
    std::function<void()> callback;
  };
  struct Later final : DeviceEvent {
    explicit Later(std::function<void()> work) : work(std::move(work)) {}
    bool reached() override { return !work; }
    void wait() override {
      if (work) std::exchange(work, nullptr)();
    }
    std::function<void()> work;
  };

  FakeAllocator allocator_;
  MemoryPool pool_{"late", allocator_, {.alignment = 512}};
};

// In the place of the second device.
class Feed : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (mirrored()) GTEST_SKIP() << "of a device of its own";
    auto backend = std::make_unique<LateBackend>();
    device_ = backend.get();
    before_ = set_backend(Device::cuda(), std::move(backend));
  }
  void TearDown() override {
    if (device_) set_backend(Device::cuda(), std::move(before_));
  }

  LateBackend* device_ = nullptr;

 private:
  std::unique_ptr<Backend> before_;
};
INSTANTIATE_TEST_SUITE_P(Loader, Feed, testing::Values(0, 1, 3),
                         [](const auto& info) { return std::to_string(info.param) + "Workers"; });

TensorDataset numbers(int64_t n) {
  std::vector<float> inputs(size_t(n), 0);
  std::iota(inputs.begin(), inputs.end(), 0.0f);
  std::vector<int32_t> labels(inputs.begin(), inputs.end());
  return TensorDataset(Tensor::from(inputs, {n}), Tensor::from(labels, {n}), n);
}

TEST_P(Feed, BringsEveryBatchInOrder) {
  const DataLoader loader(numbers(23),
                          {.batch_size = 4, .workers = GetParam(), .device = Device::cuda()});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<float> seen;
    std::vector<int64_t> sizes;
    for (const Batch& batch : loader.epoch(epoch)) {
      EXPECT_EQ(batch.inputs.device(), Device::cuda());
      EXPECT_EQ(batch.targets.device(), Device::cuda());
      EXPECT_EQ(batch.number, int64_t(sizes.size()));
      const auto values = batch.inputs.to_vector<float>();
      const auto labels = batch.targets.to_vector<int32_t>();
      EXPECT_EQ(values, std::vector<float>(labels.begin(), labels.end()));
      seen.insert(seen.end(), values.begin(), values.end());
      sizes.push_back(batch.size());
    }
    EXPECT_THAT(sizes, ElementsAre(4, 4, 4, 4, 4, 3));
    std::vector<float> all(23);
    std::iota(all.begin(), all.end(), 0.0f);
    EXPECT_EQ(seen, all);
  }
  // Buffers are used again: those made ahead, in the making, and under way.
  EXPECT_LE(device_->buffers, 3 * GetParam() + 5);
}

TEST_F(Feed, TheNextBatchIsOnItsWayWhileTheLoopWorks) {
  const DataLoader loader(
      numbers(6),
      {.batch_size = 2,
       .transform = [](Batch& batch) { run(kernels::Fill{.y = batch.inputs, .value = 7}); },
       .device = Device::cuda()});
  for (const Batch& batch : loader.epoch(0)) {
    device_->log.push_back(fmt::format("step {}", batch.number));
    EXPECT_EQ(batch.inputs.to_vector<float>(), (std::vector<float>{7, 7}));
  }
  EXPECT_THAT(device_->log,
              ElementsAre("upload 0", "copied 0", "fill", "upload 1", "step 0", "copied 1", "fill",
                          "upload 2", "step 1", "copied 2", "fill", "step 2"));
}

TEST_P(Feed, ErrorsComeWhenItsTheirTurn) {
  struct Failing : Dataset {
    int64_t size() const override { return 40; }
    Sample get(int64_t i) const override {
      if (i == 17) throw Error("[decode] cut off");
      return {Tensor::from({float(i)}, {1}), Tensor::zeros({})};
    }
  };
  const DataLoader loader(Failing(),
                          {.batch_size = 4, .workers = GetParam(), .device = Device::cuda()});
  int64_t seen = 0;
  const std::string text = thrown<DataError>([&] {
    for (const Batch& batch : loader.epoch(2)) seen += batch.size();
  });
  EXPECT_EQ(text, "[DataLoader] epoch 2, batch 4: [Dataset] item 17: [decode] cut off");
  EXPECT_EQ(seen, 16);
  EXPECT_EQ(loader.epoch(3).begin()->size(), 4);
}

TEST_P(Feed, WhatTheTransformThrowsNamesTheBatch) {
  const DataLoader loader(numbers(10), {.batch_size = 2,
                                        .workers = GetParam(),
                                        .transform =
                                            [](Batch& batch) {
                                              if (batch.number == 3) throw Error("[mine] no");
                                            },
                                        .device = Device::cuda()});
  int64_t seen = 0;
  EXPECT_EQ(thrown<DataError>([&] {
              for (const Batch& batch : loader.epoch(1)) seen += batch.size();
            }),
            "[DataLoader] epoch 1, batch 3: [mine] no");
  EXPECT_EQ(seen, 6);
}

TEST_P(Feed, AnEarlyEndWaitsForTheCopiesUnderWay) {
  const DataLoader loader(numbers(40),
                          {.batch_size = 4, .workers = GetParam(), .device = Device::cuda()});
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_EQ(batch.number, 0);
    break;
  }
  EXPECT_EQ(std::ranges::count_if(
                device_->log, [](const std::string& line) { return line.starts_with("copied"); }),
            device_->uploads);
}

TEST_P(Feed, ARefusedCopyReachesTheLoop) {
  const DataLoader loader(numbers(40),
                          {.batch_size = 4, .workers = GetParam(), .device = Device::cuda()});
  device_->fail_uploads = true;
  EXPECT_THAT(thrown<DeviceError>([&] { loader.epoch(0).begin(); }), HasSubstr("refused"));
  device_->fail_uploads = false;
  EXPECT_EQ(loader.epoch(0).begin()->size(), 4);
}

TEST_P(Feed, BatchesThatTheLoopKeepsStayAsTheyWere) {
  const DataLoader loader(numbers(20),
                          {.batch_size = 2, .workers = GetParam(), .device = Device::cuda()});
  std::vector<Tensor> kept;
  for (const Batch& batch : loader.epoch(0)) kept.push_back(batch.inputs);
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_EQ(kept[i].to_vector<float>(), (std::vector<float>{float(2 * i), float(2 * i + 1)}));
  }
}

TEST_P(Feed, AugmentsOnTheDeviceAsOnTheCpu) {
  std::vector<uint8_t> levels;
  for (int i = 0; i < 12 * 8 * 8 * 3; ++i) levels.push_back(uint8_t(i * 37));
  const Tensor images = Tensor::from(levels, {12, 8, 8, 3});
  const Tensor labels = Tensor::zeros({12}, {.dtype = DType::i32});
  const Augment augment({.crop = {.padding = 2, .border = Border::reflect},
                         .flip = Flip::random,
                         .normalize = Normalize(0.5, 0.25, DType::bf16),
                         .seed = 5});
  const TensorDataset set(images, labels, 10);
  const DataLoader here(set, {.batch_size = 5, .transform = augment});
  const DataLoader there(
      set,
      {.batch_size = 5, .workers = GetParam(), .transform = augment, .device = Device::cuda()});
  std::vector<std::vector<float>> expected, actual;
  const auto values = [](const Batch& batch) {
    return batch.inputs.to(Device::cpu()).to(DType::f32).to_vector<float>();
  };
  for (const Batch& batch : here.epoch(3)) expected.push_back(values(batch));
  for (const Batch& batch : there.epoch(3)) actual.push_back(values(batch));
  EXPECT_EQ(actual, expected);
}

TEST_F(Feed, WhatLiesOnTheDeviceStaysThere) {
  const Device cuda = Device::cuda();
  const TensorDataset plain = numbers(6);
  const TensorDataset set(plain.inputs().to(cuda), plain.targets().to(cuda), 6);
  std::vector<float> seen;
  for (const Batch& batch : DataLoader(set, {.batch_size = 4, .device = cuda}).epoch(0)) {
    const auto values = batch.inputs.to_vector<float>();
    seen.insert(seen.end(), values.begin(), values.end());
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(device_->uploads, 0);
  EXPECT_EQ(device_->buffers, 0);
  // Kernels of a device are run by one thread.
  EXPECT_EQ(thrown<DeviceError>([&] { DataLoader(set, {.workers = 1}).epoch(0).begin(); }),
            "[DataLoader] a worker was given a batch on cuda:0, where one thread runs all kernels; "
            "use 0 workers for a set that lies there");
}

TEST_F(Feed, TimeSpentWaitingIsThatOfMakingBatches) {
  double now = 0;
  struct Slow : TensorDataset {
    Slow(TensorDataset set, double& clock) : TensorDataset(std::move(set)), now(clock) {}
    Batch get_batch(const BatchRequest& request) const override {
      now += 3;
      return TensorDataset::get_batch(request);
    }
    double& now;
  };
  const DataLoader loader(Slow(numbers(3), now), {.batch_size = 1,
                                                  .transform = [&](Batch&) { now += 100; },
                                                  .device = Device::cuda(),
                                                  .clock = [&] { return now; }});
  auto epoch = loader.epoch(0);
  for (const Batch& batch : epoch) now += double(1000 * batch.size());
  EXPECT_EQ(epoch.waited_seconds(), 9);
}

// Releasing pinned memory may take long; the other workers go on.
TEST_F(Feed, ABufferIsReleasedWhileOthersMayTakeTheirs) {
  const auto buffers = std::make_shared<HostBuffers>(Device::cuda());
  std::future<void> other;
  bool taken = false;
  device_->on_release = [&] {
    device_->on_release = {};
    other = std::async(std::launch::async, [&] { buffers->take(1); });
    taken = other.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  };
  buffers->take(10);
  buffers->take(1000);
  EXPECT_TRUE(taken);
}

TEST(HostBuffers, AreUsedAgainAndReplacedByLargerOnes) {
  const auto buffers = std::make_shared<HostBuffers>(Device::cpu());
  auto first = buffers->take(100), second = buffers->take(100);
  void* const place = first->data();
  EXPECT_NE(second->data(), place);
  first.reset();
  first = buffers->take(60);
  EXPECT_EQ(first->data(), place);
  first.reset();
  first = buffers->take(1000);
  std::memset(first->data(), 1, 1000);
}

}  // namespace
}  // namespace adret
