// Image files: channel policies, damaged files, and digits brought to MNIST's form.
#include <adret/core/error.h>
#include <adret/data/image_file.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

class ImageFileTest : public testing::Test {
 protected:
  Tensor load(const std::string& content, int channels = 0) const {
    return load_image(dir_.write("image", content), {.channels = channels});
  }
  Tensor digit(const std::string& content, const DigitOptions& options = {}) const {
    return load_digit(dir_.write("digit", content), options);
  }
  TempDir dir_;
};

// One pixel of red (255, 0, 0) and one of (10, 20, 30), in each kind of file.
const std::string rgb_pixels("\xff\0\0\x0a\x14\x1e", 6);
const std::string rgb_file = png(2, 1, 2, rgb_pixels);
const std::string rgba_file = png(2, 1, 6, std::string("\xff\0\0\xff\x0a\x14\x1e\x80", 8));
const std::string palette_file =
    png(2, 1, 3, std::string("\1\0", 2), std::string("\x0a\x14\x1e\xff\0\0", 6));
const std::string gray_file = png(2, 1, 0, "\x4c\x12");

TEST_F(ImageFileTest, WithoutAPolicyTheFilesChannelsStay) {
  EXPECT_EQ(load(rgb_file).shape(), Shape({1, 2, 3}));
  EXPECT_EQ(load(rgba_file).shape(), Shape({1, 2, 4}));
  EXPECT_EQ(load(palette_file).shape(), Shape({1, 2, 3}));
  EXPECT_EQ(load(gray_file).shape(), Shape({1, 2, 1}));
  EXPECT_EQ(load(rgba_file).to_vector<uint8_t>(), (Bytes{255, 0, 0, 255, 10, 20, 30, 128}));
}

TEST_F(ImageFileTest, AllKindsBecomeTheChannelsAskedFor) {
  for (const std::string& file : {rgb_file, rgba_file, palette_file}) {
    EXPECT_EQ(load(file, 3).to_vector<uint8_t>(), (Bytes{255, 0, 0, 10, 20, 30}));
    // 0.30 * 255 = 76.5; 0.30 * 10 + 0.59 * 20 + 0.11 * 30 = 18.1; each cut to 8 bits.
    EXPECT_EQ(load(file, 1).to_vector<uint8_t>(), (Bytes{76, 18}));
  }
  EXPECT_EQ(load(gray_file, 3).to_vector<uint8_t>(), (Bytes{76, 76, 76, 18, 18, 18}));
  EXPECT_EQ(load(gray_file, 4).shape(), Shape({1, 2, 4}));
}

TEST_F(ImageFileTest, ABmpIsReadUprightAndInRgb) {
  // Two rows of one pixel, stored from the bottom, blue first, rows padded to four bytes.
  std::string bmp(
      "BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\2\0\0\0\1\0\x18\0\0\0\0\0\x08\0\0\0", 38);
  bmp += std::string(16, '\0') + std::string("\3\2\1\0\6\5\4\0", 8);
  const Tensor image = load(bmp);
  EXPECT_EQ(image.shape(), Shape({2, 1, 3}));
  EXPECT_EQ(image.to_vector<uint8_t>(), (Bytes{4, 5, 6, 1, 2, 3}));
}

TEST_F(ImageFileTest, WrongFilesAreNamedWithTheirKind) {
  EXPECT_THAT(thrown<DataError>([&] { load_image(dir_ / "none.png"); }),
              AllOf(HasSubstr("none.png"), HasSubstr("there is no such file")));
  EXPECT_THAT(thrown<DataError>([&] { load(""); }), HasSubstr("the file is empty"));
  EXPECT_THAT(thrown<DataError>([&] { load(std::string("\xff\xd8\xff\xe0") + "jpeg"); }),
              HasSubstr("expected a PNG or BMP image, found a JPEG image of 8 bytes"));
  EXPECT_THAT(thrown<DataError>([&] { load(rgb_file.substr(0, rgb_file.size() - 30)); }),
              AllOf(HasSubstr((dir_ / "image").string()), HasSubstr("cannot be decoded")));
  EXPECT_EQ(thrown<Error>([&] { load(rgb_file, 2); }),
            "[load_image] channels may be 0 (the file's), 1, 3 or 4, got 2");
}

TEST_F(ImageFileTest, ADigitLikeMnistsIsTakenAsItIs) {
  std::string pixels(28 * 28, '\0');
  for (int i = 0; i < 200; ++i) pixels[size_t(290 + i)] = char(i + 56);
  for (int y = 0; y < 28; ++y) pixels[size_t(28 * y)] = pixels[size_t(28 * y + 27)] = 0;
  const Tensor image = digit(png(28, 28, 0, pixels));
  EXPECT_EQ(image.shape(), Shape({28, 28, 1}));
  EXPECT_EQ(image.to_vector<uint8_t>(), Bytes(pixels.begin(), pixels.end()));
}

TEST_F(ImageFileTest, ADarkDigitOnALightGroundIsInverted) {
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

TEST_F(ImageFileTest, TransparencyIsPaperWhite) {
  // Black ink on full transparency, whose colour is black too.
  std::string pixels(4 * 28 * 28, '\0');
  pixels[4 * (14 * 28 + 14) + 3] = '\xff';
  const Bytes image = digit(png(28, 28, 6, pixels)).to_vector<uint8_t>();
  EXPECT_EQ(image[0], 0);
  EXPECT_EQ(image[14 * 28 + 14], 255);
}

TEST_F(ImageFileTest, EachPixelIsTheMeanOfTheAreaItCovers) {
  // 3 x 3 to 2 x 2: the corner, half of each edge pixel, a quarter of the middle, over 2.25:
  // (100 + (40 + 20) / 2 + 8 / 4) / 2.25 = 58.67.
  const std::string pixels("\x64\x28\0\x14\x08\0\0\0\0", 9);
  const Bytes image =
      digit(png(3, 3, 0, pixels), {.size = 2, .invert = Invert::never}).to_vector<uint8_t>();
  EXPECT_EQ(image[0], 59);
}

TEST_F(ImageFileTest, AnOblongDrawingIsPaddedWithItsBordersShade) {
  const Bytes image = digit(png(4, 2, 0, std::string(8, '\x40')), {.size = 4}).to_vector<uint8_t>();
  EXPECT_THAT(image, Each(0x40));
  EXPECT_THAT(thrown<Error>([&] { digit(gray_file, {.size = 0}); }),
              HasSubstr("wants a size of 1 or more, got 0"));
}

}  // namespace
}  // namespace adret
