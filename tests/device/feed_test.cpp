// Batches of images on their way to a second device, and augmented there.
#include <adret/autograd/ops/matmul.h>
#include <adret/data/image_dataset.h>
#include <adret/data/loader.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/second_device_test.h"

namespace adret {
namespace {

using namespace test;

using Feeding = OnSecondDevice;

Tensor images_of(int64_t count) {
  std::vector<uint8_t> levels;
  for (int64_t i = 0; i < count * 32 * 32 * 3; ++i) {
    levels.push_back(uint8_t(i * 2654435761u >> 13));
  }
  return Tensor::from(levels, {count, 32, 32, 3});
}

Tensor labels_of(int64_t count) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(int32_t(i % 10));
  return Tensor::from(labels, {count});
}

const AugmentOptions recipe{.crop = {.size = 32, .padding = 4, .border = Border::reflect},
                            .flip = Flip::random,
                            .cutout = 8,
                            .erasing = {.probability = 0.5},
                            .normalize = Normalize({0.49, 0.48, 0.45}, {0.25, 0.24, 0.26}),
                            .channels = 8,
                            .seed = 3};

// Inputs and targets of an epoch; each batch keeps its device busy before it is read.
std::vector<std::pair<std::vector<double>, std::vector<int32_t>>> batches_of(
    const DataLoader& loader, int64_t epoch) {
  std::vector<Tensor> inputs, targets;
  Tensor work = Tensor::zeros({64, 64}, {.device = loader.options().device});
  for (const Batch& batch : loader.epoch(epoch)) {
    for (int i = 0; i < 40; ++i) work = matmul(work, work);
    inputs.push_back(batch.inputs.clone());
    targets.push_back(batch.targets.clone());
  }
  std::vector<std::pair<std::vector<double>, std::vector<int32_t>>> result;
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.emplace_back(values_of(inputs[i]), targets[i].to(Device::cpu()).to_vector<int32_t>());
  }
  return result;
}

TEST_F(Feeding, GivesTheSameBitsAsTheCpuByEveryRoute) {
  const int64_t count = 300;
  const Tensor images = images_of(count), labels = labels_of(count);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    AugmentOptions options = recipe;
    options.dtype = dtype;
    const Augment augment(options);
    const DataLoader on_cpu(ImageDataset(images, labels, 10, augment),
                            {.batch_size = 64, .shuffle = true, .seed = 1});
    const auto expected = batches_of(on_cpu, 2);
    ASSERT_EQ(expected.size(), 5);

    const DataLoader resident(ImageDataset(images.to(second), labels.to(second), 10, augment),
                              {.batch_size = 64, .shuffle = true, .seed = 1, .device = second});
    EXPECT_TRUE(batches_of(resident, 2) == expected) << dtype;
    for (const int workers : {0, 2}) {
      const DataLoader fed(TensorDataset(images, labels, 10), {.batch_size = 64,
                                                               .shuffle = true,
                                                               .seed = 1,
                                                               .workers = workers,
                                                               .transform = augment,
                                                               .device = second});
      EXPECT_TRUE(batches_of(fed, 2) == expected) << dtype << " " << workers;
    }
  }
}

TEST_F(Feeding, BringsManyBatchesWhileTheDeviceIsBusy) {
  const int64_t count = 400;
  const TensorDataset set(images_of(count), labels_of(count), 10);
  const DataLoader here(set, {.batch_size = 16}),
      there(set, {.batch_size = 16, .workers = 3, .device = second});
  const auto expected = batches_of(here, 0);
  for (int epoch = 0; epoch < 3; ++epoch) EXPECT_TRUE(batches_of(there, epoch) == expected);
}

TEST_F(Feeding, LeavingEarlyLeavesTheDeviceUsable) {
  const TensorDataset set(images_of(100), labels_of(100), 10);
  const DataLoader loader(set, {.batch_size = 8, .workers = 2, .device = second});
  for (int i = 0; i < 20; ++i) {
    for (const Batch& batch : loader.epoch(i)) {
      EXPECT_EQ(batch.size(), 8);
      if (batch.number == i % 3) break;
    }
    const Tensor after = Tensor::full({8, 32, 32, 3}, 5, {.dtype = DType::u8, .device = second});
    EXPECT_EQ(after.to_vector<uint8_t>(), std::vector<uint8_t>(8 * 3072, 5));
  }
}

}  // namespace
}  // namespace adret
