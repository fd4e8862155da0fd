// Data sets: a user's own, stacking, sets in memory.
#include <adret/core/error.h>
#include <adret/data/dataset.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

// Item i is (i, i + 0.5) with label i % 3; item 17 cannot be had, item 5 has another shape.
struct Pairs : Dataset {
  int64_t size() const override { return 20; }
  Sample get(int64_t i) const override {
    if (i == 17) throw std::runtime_error("the disk is gone");
    const Tensor label = Tensor::full({}, double(i % 3), {.dtype = DType::i32});
    if (i == 5) return {Tensor::zeros({3}), label};
    return {Tensor::from({float(i), float(i) + 0.5f}, {2}), label};
  }
};

Batch batch_of(const Dataset& dataset, const std::vector<int64_t>& indices) {
  return dataset.get_batch({.indices = indices});
}

TEST(Dataset, ItemsOfAUsersSetAreStacked) {
  const Batch batch = batch_of(Pairs(), {4, 0, 2});
  EXPECT_EQ(batch.inputs.shape(), Shape({3, 2}));
  EXPECT_EQ(batch.inputs.to_vector<float>(), (std::vector<float>{4, 4.5, 0, 0.5, 2, 2.5}));
  EXPECT_EQ(batch.targets.shape(), Shape({3}));
  EXPECT_EQ(batch.targets.to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(batch.indices, (std::vector<int64_t>{4, 0, 2}));
}

TEST(Dataset, WhatAnItemThrowsComesWithItsIndexAndTheOriginalNested) {
  try {
    batch_of(Pairs(), {1, 17});
    FAIL() << "threw nothing";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "[Dataset] item 17: the disk is gone");
    EXPECT_EQ(thrown<std::runtime_error>([&] { std::rethrow_if_nested(error); }),
              "the disk is gone");
  }
}

TEST(Dataset, ItemsOfDifferentShapesAreNamed) {
  EXPECT_EQ(thrown<DataError>([] {
              batch_of(Pairs(), {4, 5});
            }),
            "[Dataset] the input of item 5 is (3,) f32 cpu, that of item 4 is (2,) f32 cpu; the "
            "items of a batch must be alike");
  EXPECT_THAT(thrown<Error>([] { batch_of(Pairs(), {}); }), HasSubstr("at least one index"));
}

TEST(TensorDataset, GathersRowsAndSharesItems) {
  const Tensor inputs = Tensor::from<uint8_t>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor labels = Tensor::from<int32_t>({7, 8, 9}, {3});
  const TensorDataset dataset(inputs, labels);
  const Batch batch = batch_of(dataset, {2, 0, 2});
  EXPECT_EQ(batch.inputs.shape(), Shape({3, 2}));
  EXPECT_EQ(batch.inputs.to_vector<uint8_t>(), (std::vector<uint8_t>{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(batch.targets.to_vector<int32_t>(), (std::vector<int32_t>{9, 7, 9}));
  const Sample sample = dataset.get(1);
  EXPECT_EQ(sample.input.to_vector<uint8_t>(), (std::vector<uint8_t>{3, 4}));
  EXPECT_EQ(sample.input.storage(), inputs.storage());
  EXPECT_EQ(sample.target.item<int32_t>(), 8);
}

TEST(TensorDataset, RefusesInputsAndTargetsOnTwoDevices) {
  const SecondDevice second;
  expect_error<DeviceError>(
      [] {
        TensorDataset(Tensor::zeros({3, 2}, {.device = Device::cuda()}), Tensor::zeros({3}));
      },
      "[TensorDataset] inputs (3, 2) f32 cuda:0 and targets (3,) f32 cpu are on two devices; move "
      "one with to(device)");
}

TEST(TensorDataset, RefusesDifferentCountsAndIndicesOutside) {
  EXPECT_EQ(
      thrown<ShapeError>([] {
        TensorDataset(Tensor::zeros({3, 2}), Tensor::zeros({4}));
      }),
      "[TensorDataset] wants inputs (N, ...) and targets (N, ...) of one N, got (3, 2) f32 cpu and "
      "(4,) f32 cpu");
  const TensorDataset dataset(Tensor::zeros({3}), Tensor::zeros({3}));
  EXPECT_EQ(thrown<Error>([&] { dataset.get(3); }), "[TensorDataset] index 3 is outside 0..2");
  EXPECT_THAT(thrown<Error>([&] { batch_of(dataset, {0, -1}); }), HasSubstr("index -1"));
}

}  // namespace
}  // namespace adret
