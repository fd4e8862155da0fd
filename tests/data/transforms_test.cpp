// Normalisation and augmentation of batches, and the set that augments as it gathers.
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/data/image_dataset.h>
#include <adret/data/loader.h>
#include <adret/data/transforms.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

// -- normalisation -------------------------------------------------------------------------------

TEST(Normalize, SubtractsTheMeanAndDividesByTheDeviation) {
  const Tensor images = Tensor::from<uint8_t>({0, 51, 255, 102}, {1, 2, 2, 1});
  // (x / 255 - 0.2) / 0.5 for 0, 0.2, 1, 0.4.
  const auto y = Normalize(0.2, 0.5)(images).to_vector<float>();
  const std::vector<float> expected = {-0.4f, 0.0f, 1.6f, 0.4f};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
}

TEST(Normalize, ChannelsHaveTheirOwnStatistics) {
  // Red 0 and 255: mean 0.5, deviation 0.5. Green 51 and 153: mean 0.4, deviation 0.2. Blue never
  // varies.
  const Tensor images = Tensor::from<uint8_t>({0, 51, 102, 255, 153, 102}, {1, 1, 2, 3});
  const Normalize normalize = Normalize::fit(images);
  EXPECT_NEAR(normalize.mean()[1], 0.4, 1e-12);
  EXPECT_NEAR(normalize.std()[0], 0.5, 1e-12);
  EXPECT_NEAR(normalize.std()[1], 0.2, 1e-12);
  EXPECT_EQ(normalize.std()[2], 1);
  Batch batch{.inputs = images};
  normalize(batch);
  const auto y = batch.inputs.to_vector<float>();
  const std::vector<float> expected = {-1, -1, 0, 1, 1, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
}

TEST(Normalize, RoundsToTheDTypeAskedFor) {
  const Tensor images = Tensor::from<uint8_t>({0, 255, 100}, {1, 1, 3, 1});
  const Tensor wide = Normalize(0.5, 0.25)(images),
               half = Normalize(0.5, 0.25, DType::bf16)(images);
  EXPECT_EQ(half.dtype(), DType::bf16);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(float(half.to_vector<bfloat16>()[i]), float(bfloat16(wide.to_vector<float>()[i])));
  }
  EXPECT_EQ(Normalize::fit(images, DType::f16)(images).dtype(), DType::f16);
}

TEST(Normalize, RefusesOtherImagesAndStatistics) {
  EXPECT_EQ(thrown<ShapeError>([] {
              Normalize(0.1, 0.3)(Tensor::zeros({1, 28, 28, 1}));
            }),
            "[normalize] wants images (N, H, W, C) u8 of 1 to 4 channels, got (1, 28, 28, 1) f32");
  EXPECT_EQ(thrown<ShapeError>([] {
              Normalize({0.1, 0.2}, {1, 1})(Tensor::zeros({1, 4, 4, 3}, {.dtype = DType::u8}));
            }),
            "[normalize] has statistics of 2 channels, got images (1, 4, 4, 3)");
  EXPECT_THAT(thrown<Error>([] { Normalize(0.1, 0); }), HasSubstr("wants std above 0, got 0"));
  EXPECT_EQ(thrown<Error>([] {
              Normalize({0.1, 0.2}, {1});
            }),
            "[normalize] wants a mean and a std for each of 1 to 4 channels, got 2 and 1");
  EXPECT_THAT(
      thrown<Error>([] { Normalize(std::vector<double>(5, 0), std::vector<double>(5, 1)); }),
      HasSubstr("got 5 and 5"));
  EXPECT_EQ(thrown<Error>([] { Normalize(0, 1, DType::i32); }),
            "[normalize] gives a floating dtype, not i32");
  EXPECT_EQ(thrown<ShapeError>([] {
              Normalize(0, 1)(Tensor::empty({0, 1 << 15, 1 << 16, 1}, {.dtype = DType::u8}));
            }),
            "[normalize] images of 32768x65536 with 1 channels are too large");
}

// -- augmentation --------------------------------------------------------------------------------

// Images of one level: the sample's index.
Tensor flat_images(int64_t count, const Shape& image) {
  std::vector<uint8_t> levels;
  for (int64_t i = 0; i < count; ++i) {
    levels.insert(levels.end(), size_t(image.numel()), uint8_t(i));
  }
  return Tensor::from(levels, image.inserted(0, count));
}

Tensor indices_as_labels(int64_t count) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(int32_t(i));
  return Tensor::from(labels, {count});
}

// 16x16 of which no two pixels are alike, but for each sample's offset.
Tensor varied_images(int64_t count) {
  std::vector<uint8_t> levels;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t p = 0; p < 256; ++p) levels.push_back(uint8_t(p + 3 * i));
  }
  return Tensor::from(levels, {count, 16, 16, 1});
}

const AugmentOptions crop_and_flip{.crop = {.size = 16, .padding = 3, .border = Border::reflect},
                                   .flip = Flip::random,
                                   .cutout = 4,
                                   .normalize = Normalize(0.5, 0.25),
                                   .seed = 1};

using Samples = std::map<int64_t, std::vector<float>>;  // by index

Samples samples_of(const DataLoader& loader, int64_t epoch) {
  Samples samples;
  for (const Batch& batch : loader.epoch(epoch)) {
    const auto values = batch.inputs.to(Device::cpu()).to(DType::f32).to_vector<float>();
    const size_t length = values.size() / size_t(batch.size());
    for (size_t i = 0; i < batch.indices.size(); ++i) {
      const auto begin = values.begin() + long(i * length);
      samples[batch.indices[i]] = {begin, begin + long(length)};
    }
  }
  return samples;
}

TEST(Augment, IsTheSameForAnyBatchSizeWorkersAndRoute) {
  const Augment augment(crop_and_flip);
  const ImageDataset fused(varied_images(50), indices_as_labels(50), 50, augment);
  const Samples expected = samples_of(DataLoader(fused, {.batch_size = 50}), 3);
  for (const int workers : {0, 2}) {
    for (const int64_t batch : {1, 7, 32}) {
      const LoaderOptions shuffled{.batch_size = batch, .shuffle = true, .workers = workers};
      EXPECT_EQ(samples_of(DataLoader(fused, shuffled), 3), expected);
      LoaderOptions after = shuffled;
      after.transform = augment;
      const TensorDataset plain(varied_images(50), indices_as_labels(50));
      EXPECT_EQ(samples_of(DataLoader(plain, after), 3), expected);
    }
  }
  EXPECT_NE(samples_of(DataLoader(fused, {.batch_size = 50}), 4), expected);
}

TEST(Augment, IsTheSameOnAnotherDevice) {
  const SecondDevice second;
  const MirrorPause pause;
  const Augment augment(crop_and_flip);
  const Tensor images = varied_images(20), labels = indices_as_labels(20);
  const ImageDataset here(images, labels, 20, augment),
      there(images.to(Device::cuda()), labels.to(Device::cuda()), 20, augment);
  const LoaderOptions options{.batch_size = 8, .shuffle = true};
  EXPECT_EQ(samples_of(DataLoader(there, options), 2), samples_of(DataLoader(here, options), 2));
  const Batch batch = there.get_batch({.indices = std::vector<int64_t>{4, 2}});
  EXPECT_EQ(batch.inputs.device(), Device::cuda());
  EXPECT_EQ(batch.targets.to(Device::cpu()).to_vector<int32_t>(), (std::vector<int32_t>{4, 2}));
}

TEST(Augment, WithoutOptionsGivesTheImages) {
  const Tensor images = varied_images(3);
  Batch batch{.inputs = images, .indices = {0, 1, 2}};
  Augment({})(batch);
  EXPECT_EQ(batch.inputs.dtype(), DType::u8);
  EXPECT_EQ(batch.inputs.to_vector<uint8_t>(), images.to_vector<uint8_t>());
  Augment({.dtype = DType::f32})(batch);
  EXPECT_NEAR(batch.inputs.to_vector<float>()[255], 1, 1e-7);
}

TEST(Augment, FillsWhatIsCutOutWithTheMeanOrTheLevelsGiven) {
  // The square is larger than the image and always covers all of it.
  const AugmentOptions all{.cutout = 100, .normalize = Normalize(0.5, 0.25)};
  Batch batch{.inputs = flat_images(2, {4, 4, 3}), .indices = {0, 1}};
  Augment augment(all);
  augment(batch);
  EXPECT_EQ(batch.inputs.to_vector<float>(), std::vector<float>(96, 0.0f));
  Batch levels{.inputs = flat_images(1, {1, 2, 3}), .indices = {0}};
  Augment({.cutout = 9, .fill = {7, 8, 9}})(levels);
  EXPECT_EQ(levels.inputs.to_vector<uint8_t>(), (std::vector<uint8_t>{7, 8, 9, 7, 8, 9}));
}

TEST(Augment, ErasesAShareOfTheArea) {
  const AugmentOptions options{
      .erasing = {.probability = 0.5, .area = {0.1, 0.2}, .aspect = {0.5, 2}},
      .fill = {255},
      .seed = 4};
  const ImageDataset set(Tensor::zeros({1000, 20, 20, 1}, {.dtype = DType::u8}),
                         indices_as_labels(1000), 0, Augment(options));
  int erased = 0;
  for (const auto& [index, values] : samples_of(DataLoader(set, {.batch_size = 100}), 0)) {
    const auto area = std::count(values.begin(), values.end(), 255.0f);
    erased += area > 0;
    // Sides are rounded: of a box of h by w at most (h + w) / 2 + 1/4 pixels more or less.
    if (area > 0) {
      EXPECT_TRUE(area >= 40 - 8 && area <= 80 + 10) << area;
    }
  }
  EXPECT_NEAR(erased, 500, 5 * std::sqrt(250));
}

TEST(Augment, PadsChannelsAndCropsTheCentre) {
  const Augment augment({.crop = {.size = {1, 2}, .random = false}, .channels = 4});
  EXPECT_EQ(augment.output_shape({5, 3, 4, 3}), Shape({5, 1, 2, 4}));
  Batch batch{
      .inputs = Tensor::from<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {1, 3, 4, 1}),
      .indices = {0}};
  augment(batch);
  EXPECT_EQ(batch.inputs.to_vector<uint8_t>(), (std::vector<uint8_t>{6, 0, 0, 0, 7, 0, 0, 0}));
}

TEST(Augment, TakesTheThreadsSeedWhenItIsMade) {
  random::manual_seed(21);
  const Augment augment({.flip = Flip::random});
  random::manual_seed(22);
  EXPECT_EQ(augment.options().seed, 21);
}

TEST(Augment, RefusesOptionsOutOfRange) {
  const auto text = [](AugmentOptions options) { return thrown<Error>([&] { Augment{options}; }); };
  EXPECT_EQ(text({.crop = {.padding = -1}}),
            "[augment] crop.padding is -1, wanted 0..1048576 pixels");
  EXPECT_EQ(text({.crop = {.size = {0, 3}}}),
            "[augment] crop.size is 0x3, wanted both sides, or none");
  EXPECT_EQ(text({.flip_probability = 1.5}), "[augment] flip_probability is 1.5, wanted 0..1");
  EXPECT_EQ(text({.cutout = -3}), "[augment] cutout is -3, wanted 0..1048576 pixels");
  EXPECT_EQ(text({.erasing = {.area = {0.5, 0.1}}}),
            "[augment] erasing.area is 0.5..0.1, wanted a range within 0..1");
  EXPECT_EQ(text({.erasing = {.aspect = {0, 1}}}),
            "[augment] erasing.aspect is 0..1, wanted a range within 0.01..100");
  EXPECT_EQ(text({.normalize = Normalize(0.5, 1), .dtype = DType::u8}),
            "[augment] normalised images are floating, not u8; leave normalize out");
  EXPECT_EQ(text({.dtype = DType::i64}), "[augment] gives u8 or a floating dtype, not i64");
  EXPECT_THAT(text({.fill = std::vector<uint8_t>(5)}), HasSubstr("the number of fill levels is 5"));
  EXPECT_THAT(text({.channels = -1}), HasSubstr("channels is -1"));
}

TEST(Augment, RefusesImagesThatDoNotFit) {
  const auto text = [](AugmentOptions options, const Shape& images) {
    return thrown<ShapeError>([&] { Augment(options).output_shape(images); });
  };
  EXPECT_EQ(text({.crop = {.padding = 4, .border = Border::reflect}}, {2, 4, 9, 3}),
            "[augment] reflected padding of 4 pixels wants images of 5 at least, got (2, 4, 9, 3); "
            "use less, or Border::zero");
  EXPECT_EQ(text({.crop = {.size = 12, .padding = 1}}, {2, 9, 20, 3}),
            "[augment] a crop of 12x12 does not fit in images (2, 9, 20, 3) with padding 1");
  EXPECT_EQ(text({.channels = 2}, {2, 9, 9, 3}),
            "[augment] 2 channels were asked for, the images (2, 9, 9, 3) have more");
  EXPECT_EQ(text({.normalize = Normalize({0, 0}, {1, 1})}, {2, 9, 9, 3}),
            "[augment] has statistics of 2 channels, got images (2, 9, 9, 3)");
  EXPECT_THAT(text({}, {2, 9, 9, 5}), HasSubstr("of 1 to 4 channels, got (2, 9, 9, 5) u8"));
  EXPECT_THAT(text({.channels = 1000}, {1, 100000, 100000, 1}), HasSubstr("are too large"));
  EXPECT_EQ(text({.erasing = {.probability = 0.5}}, {1, 5000, 5000, 1}),
            "[augment] erasing wants images of 16777216 pixels at most, got 5000x5000");
  Batch wrong{.inputs = varied_images(2), .indices = {1}};
  EXPECT_EQ(thrown<ShapeError>([&] { Augment({})(wrong); }),
            "[augment] got images (2, 16, 16, 1) and 1 sample ids; wanted one an image");
}

TEST(Augment, RefusesSamplesOnAnotherDevice) {
  const SecondDevice second;
  const SampleIds here(std::vector<int64_t>{0, 1}, 0, Device::cpu());
  const Tensor images = varied_images(2).to(Device::cuda());
  const Augment augment(crop_and_flip);
  const std::string text =
      "[augment] images (2, 16, 16, 1) u8 cuda:0 and sample ids (2,) i64 cpu are on two devices; "
      "make the SampleIds with the images' device";
  EXPECT_EQ(thrown<DeviceError>([&] { augment(images, here); }), text);
  EXPECT_EQ(thrown<DeviceError>([&] { augment.gather(images, here); }), text);
  SampleIds there(std::vector<int64_t>{0, 1}, 0, Device::cuda());
  there.epoch = here.epoch;
  EXPECT_THAT(thrown<DeviceError>([&] { augment(images, there); }),
              HasSubstr("sample ids () i64 cpu are on two devices"));
}

// -- the set -------------------------------------------------------------------------------------

TEST(ImageDataset, GivesALastBatchThatIsNotFull) {
  const ImageDataset set(
      flat_images(10, {4, 4, 3}), indices_as_labels(10), 10,
      Augment({.crop = {.padding = 1, .border = Border::reflect}, .flip = Flip::alternating}));
  std::vector<int64_t> sizes;
  for (const Batch& batch : DataLoader(set, {.batch_size = 4, .shuffle = true}).epoch(1)) {
    sizes.push_back(batch.size());
    // Whatever was cropped, a flat image stays the sample's index.
    const auto labels = batch.targets.to_vector<int32_t>();
    const auto levels = batch.inputs.to_vector<uint8_t>();
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(labels[i], int32_t(batch.indices[i]));
      EXPECT_EQ(levels[i * 48 + 47], uint8_t(labels[i]));
    }
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
}

TEST(ImageDataset, GivesItemsAsABatchOfOneHasThem) {
  const ImageDataset set(varied_images(5), indices_as_labels(5), 5, Augment(crop_and_flip));
  const Sample sample = set.get(3);
  EXPECT_EQ(sample.input.shape(), Shape({16, 16, 1}));
  EXPECT_EQ(sample.target.item<int32_t>(), 3);
  EXPECT_EQ(sample.input.to_vector<float>(),
            samples_of(DataLoader(set, {.batch_size = 5}), 0).at(3));
}

TEST(ImageDataset, RefusesWhatAreNoImages) {
  EXPECT_EQ(thrown<ShapeError>([] {
              ImageDataset(Tensor::zeros({3, 4, 4, 1}), Tensor::zeros({3}));
            }),
            "[ImageDataset] wants images (N, H, W, C) u8, got (3, 4, 4, 1) f32 cpu");
  EXPECT_THAT(thrown<ShapeError>([] {
                ImageDataset(flat_images(3, {4, 4, 1}), Tensor::zeros({3}), 0,
                             Augment({.crop = {.size = 9}}));
              }),
              HasSubstr("does not fit"));
  const ImageDataset set(flat_images(3, {4, 4, 1}), indices_as_labels(3), 3, Augment({}));
  EXPECT_THAT(thrown<Error>([&] { set.get(3); }), HasSubstr("index 3 is outside 0..2"));
}

}  // namespace
}  // namespace adret
