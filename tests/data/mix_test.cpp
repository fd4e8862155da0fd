// Mixup and cutmix: shares, boxes and targets that go together.
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/core/tensor.h>
#include <adret/data/mix.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

// Image i is i everywhere and has label i.
Batch batch_of(int64_t count, int64_t number = 0, int64_t epoch = 0, int64_t side = 8) {
  std::vector<float> values;
  std::vector<int32_t> labels;
  Batch batch{.epoch = epoch, .number = number};
  for (int64_t i = 0; i < count; ++i) {
    values.insert(values.end(), size_t(side * side), float(i));
    labels.push_back(int32_t(i));
    batch.indices.push_back(i);
  }
  batch.inputs = Tensor::from(values, {count, side, side, 1});
  batch.targets = Tensor::from(labels, {count});
  return batch;
}

struct Sample {
  std::vector<float> pixels, target;
};
std::vector<Sample> samples_of(const Batch& batch) {
  const auto pixels = batch.inputs.to_vector<float>(), targets = batch.targets.to_vector<float>();
  const auto count = size_t(batch.size());
  const long length = long(pixels.size() / count), classes = long(targets.size() / count);
  std::vector<Sample> samples;
  for (long i = 0; i < long(count); ++i) {
    samples.push_back({{pixels.begin() + i * length, pixels.begin() + (i + 1) * length},
                       {targets.begin() + i * classes, targets.begin() + (i + 1) * classes}});
  }
  return samples;
}

// The expectation of a flat image's level is that of its target's label.
double mean_label(const std::vector<float>& target) {
  double mean = 0;
  for (size_t c = 0; c < target.size(); ++c) mean += double(c) * target[c];
  return mean;
}

TEST(Mixup, MixesImagesAndTargetsByTheSameShare) {
  const Mixup mixup({.num_classes = 16, .alpha = 1, .seed = 5});
  Batch batch = batch_of(16);
  mixup(batch);
  EXPECT_EQ(batch.targets.shape(), Shape({16, 16}));
  std::set<float> shares;
  std::multiset<size_t> partners;
  for (size_t i = 0; i < 16; ++i) {
    const Sample sample = samples_of(batch)[i];
    for (const float level : sample.pixels) EXPECT_NEAR(level, mean_label(sample.target), 1e-5);
    double sum = 0;
    for (size_t c = 0; c < 16; ++c) {
      sum += sample.target[c];
      if (c != i && sample.target[c] > 0) partners.insert(c);
    }
    EXPECT_EQ(sum, 1);
    if (sample.target[i] < 1) shares.insert(sample.target[i]);
  }
  EXPECT_EQ(shares.size(), 1);  // of the whole batch
  EXPECT_GT(partners.size(), 8);
  for (const size_t partner : partners) EXPECT_EQ(partners.count(partner), 1);  // a permutation
}

TEST(Cutmix, TakesABoxOfThePartnerAndCountsItsArea) {
  const Cutmix cutmix({.num_classes = 10, .seed = 8});
  int cut = 0;
  for (int64_t number = 0; number < 50; ++number) {
    Batch batch = batch_of(10, number);
    cutmix(batch);
    const std::vector<Sample> samples = samples_of(batch);
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto& [pixels, target] = samples[i];
      double kept = 0;
      for (const float level : pixels) {
        EXPECT_EQ(level, std::floor(level));
        kept += level == float(i);
      }
      double mean = 0;
      for (const float level : pixels) mean += double(level) / 64;
      EXPECT_NEAR(mean, mean_label(target), 1e-5);
      if (target[i] < 1) {
        EXPECT_NEAR(target[i], kept / 64, 1e-6);
        ++cut;
      }
    }
  }
  EXPECT_GT(cut, 250);
}

// Beta(a, a) has the mean 1/2 and the variance 1 / (4 (2 a + 1)).
TEST(Mixup, SharesFollowTheBetaDistribution) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    const Mixup mixup({.num_classes = 2, .alpha = alpha, .seed = 1});
    double sum = 0, squares = 0;
    int count = 0;
    for (int64_t number = 0; number < 8000; ++number) {
      Batch batch = batch_of(2, number, 3, 1);
      mixup(batch);
      const float share = batch.targets.to_vector<float>()[0];
      if (share == 1) continue;  // its own partner, or as good as that
      sum += share;
      squares += double(share) * share;
      ++count;
    }
    const double mean = sum / count, variance = squares / count - mean * mean;
    const double expected = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(count, 4000, 350) << alpha;
    EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(expected / 4000)) << alpha;
    EXPECT_NEAR(variance, expected, 0.08 * expected) << alpha;
  }
}

TEST(Mixup, DependsOnSeedEpochAndNumberAlone) {
  const auto mixed = [](uint64_t seed, int64_t epoch, int64_t number, Device device) {
    Batch batch = batch_of(12, number, epoch);
    batch.inputs = batch.inputs.to(device);
    batch.targets = batch.targets.to(device);
    Mixup({.num_classes = 12, .seed = seed})(batch);
    return batch.inputs.to_vector<float>();
  };
  const Device cpu = Device::cpu();
  const auto first = mixed(1, 2, 3, cpu);
  EXPECT_EQ(mixed(1, 2, 3, cpu), first);
  EXPECT_NE(mixed(2, 2, 3, cpu), first);
  EXPECT_NE(mixed(1, 3, 3, cpu), first);
  EXPECT_NE(mixed(1, 2, 4, cpu), first);
  const SecondDevice second;
  const MirrorPause pause;
  EXPECT_EQ(mixed(1, 2, 3, Device::cuda()), first);
}

TEST(Mixup, LeavesBatchesAloneByProbability) {
  const Mixup never({.num_classes = 4, .probability = 0, .seed = 1});
  const Cutmix never_cut({.num_classes = 4, .probability = 0, .seed = 1});
  for (int i = 0; i < 2; ++i) {
    Batch batch = batch_of(4);
    const Tensor before = batch.inputs;
    i ? never(batch) : never_cut(batch);
    EXPECT_EQ(batch.inputs.to_vector<float>(), before.to_vector<float>());
    EXPECT_EQ(batch.targets.to_vector<float>(),
              (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
  }
}

TEST(Mixup, RefusesOptionsAndBatches) {
  EXPECT_EQ(thrown<Error>([] { Mixup({.alpha = 1}); }),
            "[mixup] wants num_classes of 1 or more, alpha above 0 and a probability in 0..1, got "
            "0, 1 and 1");
  EXPECT_THAT(thrown<Error>([] { Cutmix({.num_classes = 3, .alpha = 0}); }),
              HasSubstr("[cutmix] wants"));
  Batch batch = batch_of(4);
  batch.inputs = Tensor::zeros({4, 2, 2, 3}, {.dtype = DType::u8});
  EXPECT_EQ(thrown<ShapeError>([&] { Mixup({.num_classes = 4})(batch); }),
            "[mixup] wants images (N, H, W, C) of a floating dtype, got (4, 2, 2, 3) u8 cpu; "
            "normalise them before");
  batch = batch_of(4);
  batch.targets = Tensor::zeros({4});
  EXPECT_EQ(thrown<ShapeError>([&] { Cutmix({.num_classes = 4})(batch); }),
            "[cutmix] wants labels (4,) i32 or i64, got (4,) f32 cpu");
}

}  // namespace
}  // namespace adret
