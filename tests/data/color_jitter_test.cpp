// Colours against Pillow and torchvision.
#include <adret/core/error.h>
#include <adret/data/transforms.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;
using Levels = std::vector<int>;

// (53 i + 29 h + 7 w + 101 c) mod 256 at (h, w, c) of image i.
Tensor images_of(const std::vector<int>& numbers, int64_t height = 4, int64_t width = 5) {
  std::vector<uint8_t> levels;
  for (const int i : numbers) {
    for (int64_t h = 0; h < height; ++h) {
      for (int64_t w = 0; w < width; ++w) {
        for (int64_t c = 0; c < 3; ++c) {
          levels.push_back(uint8_t((53 * i + 29 * h + 7 * w + 101 * c) % 256));
        }
      }
    }
  }
  return Tensor::from(levels, {int64_t(numbers.size()), height, width, 3});
}

void expect_levels(const Tensor& actual, const Levels& expected, int tolerance,
                   const std::string& what) {
  const auto levels = actual.to_vector<uint8_t>();
  ASSERT_EQ(levels.size(), expected.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    EXPECT_LE(std::abs(int(levels[i]) - expected[i]), tolerance) << what << " " << i;
  }
}

Tensor jittered(const ColorJitterOptions& options) {
  return ColorJitter(options)(images_of({0}), SampleIds(std::vector<int64_t>{0}, 0, Device::cpu()));
}

// Pillow 9.4's ImageEnhance.Brightness, Contrast, Color; their factors are of f32.
TEST(ColorJitter, HasPillowsBrightnessContrastAndSaturation) {
  expect_levels(
      jittered({.brightness = {0.7, 0.7}}),
      {0,   70, 141, 4,   75, 146, 9,   80, 151, 14,  85, 156, 19,  90, 161, 20,  91, 161, 25,  95,
       166, 30, 100, 171, 35, 105, 176, 39, 110, 2,   40, 111, 2,   45, 116, 7,   50, 121, 12,  55,
       126, 17, 60,  130, 22, 60,  131, 23, 65,  136, 28, 70,  141, 32, 75,  146, 37, 80,  151, 42},
      1, "brightness 0.7");
  expect_levels(jittered({.brightness = {1.5, 1.5}}),
                {0,   151, 255, 10,  162, 255, 21,  172, 255, 31,  183, 255, 42,  193, 255,
                 43,  195, 255, 54,  205, 255, 64,  216, 255, 75,  226, 255, 85,  237, 4,
                 87,  238, 6,   97,  249, 16,  108, 255, 27,  118, 255, 37,  129, 255, 48,
                 130, 255, 49,  141, 255, 60,  151, 255, 70,  162, 255, 81,  172, 255, 91},
                0, "brightness 1.5");
  expect_levels(jittered({.contrast = {0.5, 0.5}}),
                {62,  112, 163, 65,  116, 166, 69,  119, 170, 72,  123, 173, 76,  126, 177,
                 76,  127, 177, 80,  130, 181, 83,  134, 184, 87,  137, 188, 90,  141, 63,
                 91,  141, 64,  94,  145, 67,  98,  148, 71,  101, 152, 74,  105, 155, 78,
                 105, 156, 78,  109, 159, 82,  112, 163, 85,  116, 166, 89,  119, 170, 92},
                0, "contrast 0.5");
  expect_levels(jittered({.contrast = {1.8, 1.8}}),
                {0,  82,  255, 0,  95,  255, 0,  107, 255, 0,  120, 255, 0,   133, 255,
                 0,  134, 255, 0,  147, 255, 0,  160, 255, 0,  172, 255, 3,   185, 0,
                 5,  187, 0,   17, 199, 0,   30, 212, 0,   43, 224, 0,   55,  237, 0,
                 57, 239, 0,   70, 251, 0,   82, 255, 0,   95, 255, 0,   107, 255, 10},
                1, "contrast 1.8");
  expect_levels(jittered({.saturation = {0.3, 0.3}}),
                {57,  87,  118, 64,  94,  125, 71,  101, 132, 78,  108, 139, 85,  115, 146,
                 86,  116, 147, 93,  123, 154, 100, 130, 161, 107, 137, 168, 94,  124, 77,
                 95,  125, 78,  102, 132, 85,  109, 139, 92,  116, 146, 99,  123, 153, 106,
                 124, 154, 107, 131, 161, 114, 138, 168, 121, 145, 175, 128, 152, 182, 135},
                1, "saturation 0.3");
  expect_levels(jittered({.saturation = {1.6, 1.6}}),
                {0,  112, 255, 0,  119, 255, 0,  126, 255, 0,  133, 255, 0,  140, 255,
                 0,  141, 255, 0,  148, 255, 0,  155, 255, 0,  162, 255, 25, 186, 0,
                 26, 187, 0,   33, 194, 0,   40, 201, 0,   47, 208, 0,   54, 215, 0,
                 55, 216, 0,   62, 223, 0,   69, 230, 0,   76, 237, 0,   83, 244, 0},
                1, "saturation 1.6");
}

// torchvision 0.14's adjust_hue on tensors, which rounds down.
TEST(ColorJitter, TurnsTheHueAsTorchvisionDoes) {
  const std::vector<std::pair<double, Levels>> goldens = {
      {-0.5, {202, 100, 0,   209, 107, 6,   216, 114, 13,  223, 121, 20,  230, 128, 28,
              231, 129, 28,  238, 136, 35,  245, 143, 42,  252, 150, 49,  103, 3,   158,
              104, 3,   159, 111, 10,  166, 118, 17,  173, 125, 25,  180, 132, 31,  187,
              133, 33,  188, 140, 39,  195, 147, 46,  202, 154, 54,  209, 161, 61,  216}},
      {-0.21, {0,   202, 48, 6,   209, 55, 13,  216, 62, 20,  223, 69, 28,  230, 76,
               28,  231, 77, 35,  238, 84, 42,  245, 91, 49,  252, 98, 158, 63,  3,
               159, 64,  3,  166, 71,  10, 173, 78,  17, 180, 85,  25, 187, 92,  31,
               188, 93,  33, 195, 100, 39, 202, 107, 46, 209, 114, 54, 216, 121, 61}},
      {0.1, {20, 0,   202, 27, 6,   209, 34, 13,  216, 41, 20,  223, 48, 28,  230,
             49, 28,  231, 56, 35,  238, 63, 42,  245, 70, 49,  252, 3,  158, 41,
             3,  159, 42,  10, 166, 49,  17, 173, 56,  25, 180, 63,  31, 187, 70,
             33, 188, 71,  39, 195, 78,  46, 202, 85,  54, 209, 92,  61, 216, 99}},
      {0.33, {202, 0,  105, 209, 6,  112, 216, 13,  119, 223, 20,  126, 230, 28,  133,
              231, 28, 134, 238, 35, 141, 245, 42,  148, 252, 49,  155, 3,   60,  158,
              3,   61, 159, 10,  68, 166, 17,  75,  173, 25,  82,  180, 31,  89,  187,
              33,  90, 188, 39,  97, 195, 46,  104, 202, 54,  111, 209, 61,  118, 216}}};
  for (const auto& [hue, levels] : goldens) {
    expect_levels(jittered({.hue = {hue, hue}}), levels, 1, std::to_string(hue));
  }
}

TEST(ColorJitter, WithoutRangesChangesNothing) {
  const Tensor images = images_of({0, 1, 2}, 40, 40);
  const SampleIds ids(std::vector<int64_t>{5, 6, 7}, 1, Device::cpu());
  EXPECT_EQ(ColorJitter({})(images, ids).to_vector<uint8_t>(), images.to_vector<uint8_t>());
}

// Pillow and torchvision, one after the other in the drawn order: for id 0 of seed 11 in epoch 2
// contrast 0.8045, brightness 1.3958, hue 0.0676, saturation 0.7799; for id 3 brightness 1.0450,
// saturation 0.8510, hue -0.0753, contrast 0.9767.
TEST(ColorJitter, DrawsFactorsAndOrderForEachSample) {
  const ColorJitter jitter({.brightness = {0.6, 1.4},
                            .contrast = {0.6, 1.4},
                            .saturation = {0.6, 1.4},
                            .hue = {-0.1, 0.1},
                            .seed = 11});
  Batch batch{.inputs = images_of({3, 0}), .indices = {3, 0}, .epoch = 2};
  jitter(batch);
  // Four roundings, the first of which may be magnified by 1.4.
  expect_levels(
      batch.inputs,
      {134, 13,  149, 141, 22,  156, 148, 28,  162, 156, 34,  170, 162, 42,  177, 163, 43,  178,
       170, 50,  185, 178, 57,  193, 185, 65,  200, 192, 72,  206, 193, 73,  207, 201, 80,  215,
       207, 87,  222, 214, 94,  229, 221, 101, 236, 222, 102, 237, 219, 110, 237, 18,  185, 194,
       25,  193, 201, 31,  200, 207, 40,  58,  214, 47,  68,  216, 56,  79,  218, 65,  90,  220,
       72,  101, 222, 74,  101, 222, 82,  113, 224, 89,  124, 226, 98,  134, 228, 57,  194, 65,
       59,  196, 67,  67,  203, 76,  74,  211, 82,  83,  219, 91,  90,  226, 97,  90,  228, 97,
       100, 236, 108, 107, 239, 114, 114, 240, 117, 121, 241, 122},
      3, "drawn");
}

TEST(ColorJitter, IsTheSameInEveryBatchForAnyThreadsAndOnAnotherDevice) {
  const ColorJitter jitter({.brightness = {0.5, 1.5},
                            .contrast = {0.5, 1.5},
                            .saturation = {0.5, 1.5},
                            .hue = {-0.2, 0.2},
                            .seed = 3});
  std::vector<int> numbers;
  std::vector<int64_t> ids;
  for (int i = 0; i < 20; ++i) numbers.push_back(i), ids.push_back(i);
  const Tensor images = images_of(numbers, 30, 31);
  const auto run_on = [&](Device device) {
    return jitter(images.to(device), SampleIds(ids, 4, device)).to_vector<uint8_t>();
  };
  const auto all = run_on(Device::cpu());
  expect_same_for_any_threads([&] { return run_on(Device::cpu()); });
  const auto alone =
      jitter(images_of({7}, 30, 31), SampleIds(std::vector<int64_t>{7}, 4, Device::cpu()))
          .to_vector<uint8_t>();
  const long length = 30 * 31 * 3;
  EXPECT_EQ(alone, std::vector<uint8_t>(all.begin() + 7 * length, all.begin() + 8 * length));
  const SecondDevice second;
  const MirrorPause pause;
  EXPECT_EQ(run_on(Device::cuda()), all);
}

TEST(ColorJitter, RefusesRangesAndImages) {
  EXPECT_EQ(thrown<Error>([] {
              ColorJitter({.brightness = {-1, 1}});
            }),
            "[color_jitter] brightness is -1..1, wanted a range within 0..32");
  EXPECT_EQ(thrown<Error>([] {
              ColorJitter({.hue = {0, 0.7}});
            }),
            "[color_jitter] hue is 0..0.7, wanted a range within -0.5..0.5");
  EXPECT_THAT(thrown<Error>([] {
                ColorJitter({.contrast = {2, 1}});
              }),
              HasSubstr("contrast is 2..1"));
  Batch gray{.inputs = Tensor::zeros({1, 2, 2, 1}, {.dtype = DType::u8}), .indices = {0}};
  EXPECT_EQ(thrown<ShapeError>([&] { ColorJitter({})(gray); }),
            "[color_jitter] wants images (1, H, W, 3) u8, got (1, 2, 2, 1) u8 cpu");
}

TEST(ColorJitter, RefusesSamplesOnAnotherDevice) {
  const SecondDevice second;
  const SampleIds here(std::vector<int64_t>{0}, 0, Device::cpu());
  const Tensor images = images_of({0}).to(Device::cuda());
  const ColorJitter jitter({});
  EXPECT_EQ(thrown<DeviceError>([&] { jitter(images, here); }),
            "[color_jitter] images (1, 4, 5, 3) u8 cuda:0 and sample ids (1,) i64 cpu are on two "
            "devices; make the SampleIds with the images' device");
}

}  // namespace
}  // namespace adret
