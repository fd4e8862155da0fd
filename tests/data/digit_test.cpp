// Drawings of digits brought to MNIST's form.
#include <adret/core/error.h>
#include <adret/data/digit.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;
using testing::Each;
using testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

class DigitTest : public testing::Test {
 protected:
  Tensor digit(const std::string& content, const DigitOptions& options = {}) const {
    return load_digit(dir_.write("digit", content), options);
  }
  TempDir dir_;
};

TEST_F(DigitTest, ADigitLikeMnistsIsTakenAsItIs) {
  std::string pixels(28 * 28, '\0');
  for (int i = 0; i < 200; ++i) pixels[size_t(290 + i)] = char(i + 56);
  for (int y = 0; y < 28; ++y) pixels[size_t(28 * y)] = pixels[size_t(28 * y + 27)] = 0;
  const Tensor image = digit(png(28, 28, 0, pixels));
  EXPECT_EQ(image.shape(), Shape({28, 28, 1}));
  EXPECT_EQ(image.to_vector<uint8_t>(), Bytes(pixels.begin(), pixels.end()));
}

TEST_F(DigitTest, ADarkDigitOnALightGroundIsInverted) {
  std::string pixels(28 * 28, '\xff');
  pixels[14 * 28 + 14] = 10;
  const std::string file = png(28, 28, 0, pixels);
  const Bytes inverted = digit(file).to_vector<uint8_t>();
  EXPECT_EQ(inverted[0], 0);
  EXPECT_EQ(inverted[14 * 28 + 14], 245);
  EXPECT_EQ(digit(file, {.invert = Invert::never}).to_vector<uint8_t>()[0], 255);
  EXPECT_EQ(digit(png(1, 1, 0, std::string(1, '\0')), {.size = 1, .invert = Invert::always})
                .to_vector<uint8_t>()[0],
            255);
}

TEST_F(DigitTest, TransparencyIsPaperWhite) {
  // Black ink on full transparency, whose colour is black too.
  std::string pixels(4 * 28 * 28, '\0');
  pixels[4 * (14 * 28 + 14) + 3] = '\xff';
  const Bytes image = digit(png(28, 28, 6, pixels)).to_vector<uint8_t>();
  EXPECT_EQ(image[0], 0);
  EXPECT_EQ(image[14 * 28 + 14], 255);
}

TEST_F(DigitTest, EachPixelIsTheMeanOfTheAreaItCovers) {
  // 3 x 3 to 2 x 2: the corner, half of each edge pixel, a quarter of the middle, over 2.25:
  // (100 + (40 + 20) / 2 + 8 / 4) / 2.25 = 58.67.
  const std::string pixels("\x64\x28\0\x14\x08\0\0\0\0", 9);
  const Bytes image =
      digit(png(3, 3, 0, pixels), {.size = 2, .invert = Invert::never}).to_vector<uint8_t>();
  EXPECT_EQ(image[0], 59);
}

TEST_F(DigitTest, AnOblongDrawingIsPaddedWithItsBordersShade) {
  const Bytes image = digit(png(4, 2, 0, std::string(8, '\x40')), {.size = 4}).to_vector<uint8_t>();
  EXPECT_THAT(image, Each(0x40));
  EXPECT_THAT(thrown<Error>([&] { digit(png(1, 1, 0, "x"), {.size = 0}); }),
              HasSubstr("wants a size of 1 or more, got 0"));
}

}  // namespace
}  // namespace adret
