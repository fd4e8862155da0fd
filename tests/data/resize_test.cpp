// Resizing against Pillow, and crops of the centre.
#include <adret/core/error.h>
#include <adret/data/resize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;
using Levels = std::vector<uint8_t>;

// (53 + 29 h + 7 w + 101 c) mod 256 at (h, w, c).
Tensor image_of(int64_t height, int64_t width, int64_t channels) {
  Levels levels;
  for (int64_t h = 0; h < height; ++h) {
    for (int64_t w = 0; w < width; ++w) {
      for (int64_t c = 0; c < channels; ++c) {
        levels.push_back(uint8_t((53 + 29 * h + 7 * w + 101 * c) % 256));
      }
    }
  }
  return Tensor::from(levels, {height, width, channels});
}

// Pillow 9.4: Image.fromarray(x).resize((w, h), Image.BILINEAR).
TEST(Resize, GivesPillowsLevels) {
  struct Golden {
    Size2 from, to;
    Levels levels;
  };
  const Golden goldens[] = {
      {{13, 17}, {4, 5}, {106, 188, 64,  127, 177, 73,  151, 146, 97,  172, 100, 121,
                          186, 68,  142, 176, 93,  137, 176, 80,  158, 159, 85,  173,
                          126, 105, 172, 97,  126, 159, 83,  130, 159, 84,  151, 130,
                          83,  171, 97,  98,  176, 80,  119, 163, 77,  114, 188, 70,
                          135, 156, 84,  159, 110, 105, 183, 79,  129, 192, 68,  150}},
      {{4, 5}, {7, 3}, {56,  157, 148, 67,  168, 13,  78,  179, 24,  66,  167, 106, 77,
                        178, 23,  88,  189, 34,  83,  184, 39,  94,  195, 40,  105, 206,
                        51,  100, 201, 46,  111, 212, 57,  122, 223, 68,  116, 217, 62,
                        127, 224, 73,  138, 221, 84,  133, 234, 79,  144, 208, 90,  155,
                        91,  101, 143, 244, 89,  154, 198, 100, 165, 10,  111}},
      {{3, 4}, {3, 9}, {53,  154, 255, 54,  155, 213, 57,  158, 103, 60,  161, 6,   64,  165,
                        10,  67,  168, 13,  70,  171, 16,  73,  174, 19,  74,  175, 20,  82,
                        183, 28,  83,  184, 29,  86,  187, 32,  89,  190, 35,  93,  194, 39,
                        96,  197, 42,  99,  200, 45,  102, 203, 48,  103, 204, 49,  111, 212,
                        57,  112, 213, 58,  115, 216, 61,  118, 219, 64,  122, 223, 68,  125,
                        226, 71,  128, 229, 74,  131, 232, 77,  132, 233, 78}},
      {{9, 2}, {2, 2}, {116, 163, 102, 123, 170, 69, 128, 88, 168, 135, 95, 175}}};
  for (const Golden& golden : goldens) {
    const Tensor y = resize(image_of(golden.from.h, golden.from.w, 3), golden.to);
    EXPECT_EQ(y.shape(), Shape({golden.to.h, golden.to.w, 3}));
    EXPECT_EQ(y.to_vector<uint8_t>(), golden.levels) << to_string(golden.to);
  }
}

TEST(Resize, TreatsImagesAndChannelsAlike) {
  const Tensor four = image_of(13, 17, 4);
  const Levels all = resize(four, {6, 20}).to_vector<uint8_t>();
  for (int64_t c = 0; c < 4; ++c) {
    Levels one;
    const Levels levels = four.to_vector<uint8_t>();
    for (size_t i = size_t(c); i < levels.size(); i += 4) one.push_back(levels[i]);
    const Levels alone = resize(Tensor::from(one, {13, 17, 1}), {6, 20}).to_vector<uint8_t>();
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_EQ(all[4 * i + size_t(c)], alone[i]);
  }
  Levels two = four.to_vector<uint8_t>();
  two.insert(two.end(), two.begin(), two.end());
  const Tensor both = resize(Tensor::from(two, {2, 13, 17, 4}), {6, 20});
  EXPECT_EQ(both.shape(), Shape({2, 6, 20, 4}));
  Levels twice = all;
  twice.insert(twice.end(), all.begin(), all.end());
  EXPECT_EQ(both.to_vector<uint8_t>(), twice);
}

TEST(Resize, KeepsFlatImagesAndIsTheSameForAnyThreads) {
  const Tensor flat = Tensor::full({3, 40, 50, 3}, 201, {.dtype = DType::u8});
  for (const Size2 size : {Size2(7, 9), Size2(100, 3), Size2(1, 1), Size2(40, 50)}) {
    for (const uint8_t level : resize(flat, size).to_vector<uint8_t>()) ASSERT_EQ(level, 201);
  }
  const Tensor x = image_of(300, 200, 3);
  expect_same_for_any_threads([&] { return resize(x, {77, 401}).to_vector<uint8_t>(); });
}

TEST(Resize, TheShorterSideKeepsTheRatio) {
  EXPECT_EQ(resize_shorter_side(image_of(30, 45, 3), 10).shape(), Shape({10, 15, 3}));
  EXPECT_EQ(resize_shorter_side(image_of(47, 20, 1), 10).shape(), Shape({23, 10, 1}));
}

TEST(CenterCrop, TakesTheMiddle) {
  const Tensor image = Tensor::from<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4, 1});
  EXPECT_EQ(center_crop(image, {1, 2}).to_vector<uint8_t>(), (Levels{6, 7}));
  EXPECT_EQ(center_crop(image, {2, 3}).to_vector<uint8_t>(), (Levels{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(center_crop(image, {3, 4}).to_vector<uint8_t>(), image.to_vector<uint8_t>());
}

TEST(Resize, RefusesOtherImagesAndSizes) {
  EXPECT_EQ(thrown<ShapeError>([] {
              resize(Tensor::zeros({3, 4, 3}), 2);
            }),
            "[resize] wants images (N, H, W, C) or an image (H, W, C), u8 of 1 to 4 channels, got "
            "(3, 4, 3) f32");
  EXPECT_EQ(thrown<Error>([] {
              resize(image_of(3, 4, 3), {0, 2});
            }),
            "[resize] the size is 0x2, wanted sides of 1..1048576");
  EXPECT_THAT(thrown<ShapeError>([] {
                resize(Tensor::empty({0, 4, 3}, {.dtype = DType::u8}), 2);
              }),
              HasSubstr("no pixels"));
  EXPECT_EQ(thrown<ShapeError>([] {
              center_crop(image_of(3, 4, 3), {4, 4});
            }),
            "[center_crop] a crop of 4x4 does not fit in images (3, 4, 3)");
  // No images at all take no memory.
  const auto none = [](int64_t h, int64_t w) {
    return Tensor::empty({0, h, w, 1}, {.dtype = DType::u8});
  };
  EXPECT_EQ(thrown<ShapeError>([&] {
              center_crop(none(1 << 16, 1 << 16), {1 << 15, 1 << 16});
            }),
            "[center_crop] images of 32768x65536 with 1 channels are too large");
  EXPECT_EQ(thrown<ShapeError>([&] {
              center_crop(none(1, 2 << 20), {1, 1});
            }),
            "[center_crop] wants images of sides up to 1048576, got (0, 1, 2097152, 1)");
}

}  // namespace
}  // namespace adret
