// Image files: pixels as Pillow reads them, channel policies, and damage anywhere in a file.
#include <adret/core/error.h>
#include <adret/data/image_file.h>
#include <adret/train/safetensors.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "tests/data/formats.h"
#include "tests/support/as_nobody.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::StartsWith;

using Bytes = std::vector<uint8_t>;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
Tensor decode(const std::string& content, int channels = 0) {
  return decode_image(bytes_of(content), "image", {.channels = channels});
}
std::string decode_error(const std::string& content, int channels = 0) {
  return thrown<DataError>([&] { decode(content, channels); });
}

// tests/golden/make_images.py made these: files by name, and by "name:mode" the pixels of Pillow.
const std::map<std::string, Tensor>& golden_images() {
  static const auto images = [] {
    std::map<std::string, Tensor> all;
    for (const auto& [name, tensor] :
         read_tensors(source_dir() / "tests/golden/images.safetensors").tensors) {
      all[name] = tensor;
    }
    return all;
  }();
  return images;
}
std::string golden_file(const std::string& name) {
  const auto bytes = golden_images().at(name).span<uint8_t>();
  return {bytes.begin(), bytes.end()};
}

// One pixel of red (255, 0, 0) and one of (10, 20, 30), in each kind of file.
const std::string rgb_pixels("\xff\0\0\x0a\x14\x1e", 6);
const std::string rgb_file = png(2, 1, 2, rgb_pixels);
const std::string rgba_file = png(2, 1, 6, std::string("\xff\0\0\xff\x0a\x14\x1e\x80", 8));
const std::string palette_file =
    png(2, 1, 3, std::string("\1\0", 2), std::string("\x0a\x14\x1e\xff\0\0", 6));
const std::string gray_file = png(2, 1, 0, "\x4c\x12");

TEST(GoldenImages, ArePillowsPixelForPixel) {
  int compared = 0;
  for (const auto& [key, expected] : golden_images()) {
    const size_t colon = key.rfind(':');
    if (colon == std::string::npos || expected.rank() == 1) continue;
    const std::string name = key.substr(0, colon), mode = key.substr(colon + 1);
    const int channels = mode == "L" ? 1 : mode == "RGB" ? 3 : 4;
    const Tensor image = decode(golden_file(name), channels);
    EXPECT_EQ(image.shape(), expected.shape()) << key;
    EXPECT_EQ(image.to_vector<uint8_t>(), expected.to_vector<uint8_t>()) << key;
    ++compared;
  }
  EXPECT_EQ(compared, 59);  // 20 files in three modes, but for one
}

TEST(GoldenImages, WithoutAPolicyTheFilesChannelsStay) {
  const std::map<std::string, int64_t> channels = {
      {"jpeg 4:2:0", 3},  {"jpeg gray", 1}, {"jpeg CMYK", 3},   {"png RGB", 3},
      {"png RGBA", 4},    {"png gray", 1},  {"png palette", 3}, {"png gray and alpha", 2},
      {"bmp palette", 3}, {"pgm", 1},       {"ppm", 3},         {"png palette and transparency", 4},
  };
  for (const auto& [name, expected] : channels) {
    EXPECT_EQ(decode(golden_file(name)).shape(), Shape({13, 19, expected})) << name;
  }
}

TEST(ImageFile, AllKindsBecomeTheChannelsAskedFor) {
  for (const std::string& file : {rgb_file, rgba_file, palette_file}) {
    EXPECT_EQ(decode(file, 3).to_vector<uint8_t>(), (Bytes{255, 0, 0, 10, 20, 30}));
    // 0.299 * 255 = 76.2; 0.299 * 10 + 0.587 * 20 + 0.114 * 30 = 18.2.
    EXPECT_EQ(decode(file, 1).to_vector<uint8_t>(), (Bytes{76, 18}));
  }
  EXPECT_EQ(decode(rgba_file).to_vector<uint8_t>(), (Bytes{255, 0, 0, 255, 10, 20, 30, 128}));
  EXPECT_EQ(decode(gray_file, 3).to_vector<uint8_t>(), (Bytes{76, 76, 76, 18, 18, 18}));
  EXPECT_EQ(decode(gray_file, 4).to_vector<uint8_t>(), (Bytes{76, 76, 76, 255, 18, 18, 18, 255}));
  EXPECT_EQ(thrown<Error>([] { decode(rgb_file, 2); }),
            "[decode_image] channels may be 0 (the file's), 1, 3 or 4, got 2");
}

TEST(ImageFile, Of16BitsTheUpperOnesStay) {
  const std::string rgb = png(1, 1, 2, std::string("\x12\xff\x80\0\xff\x7f", 6), "", 16);
  EXPECT_EQ(decode(rgb).to_vector<uint8_t>(), (Bytes{0x12, 0x80, 0xff}));
  EXPECT_EQ(decode(png(1, 1, 0, "\xab\xcd", "", 16), 3).to_vector<uint8_t>(),
            (Bytes{0xab, 0xab, 0xab}));
}

TEST(ImageFile, EntriesThatAPaletteLacksAreBlack) {
  const std::string two("\x0a\x14\x1e\xff\0\0", 6);
  const std::string file = png(4, 1, 3, std::string("\1\2\xff\0", 4), two);
  EXPECT_EQ(decode(file, 3).to_vector<uint8_t>(), (Bytes{255, 0, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30}));
  // Two pixels of four bits: 1 and 15.
  EXPECT_EQ(decode(png(2, 1, 3, "\x1f", two, 4)).to_vector<uint8_t>(), (Bytes{255, 0, 0, 0, 0, 0}));
  EXPECT_THAT(decode_error(png(1, 1, 3, std::string(1, '\0'))), HasSubstr("Corrupt PNG"));
}

TEST(ImageFile, AJpegMayHaveAnotherRevisionOfJfifAndStrayBytesInItsHeader) {
  const std::string file = golden_file("jpeg 4:2:0");
  const auto pixels = decode(file).to_vector<uint8_t>();
  std::string revision = file;
  const size_t jfif = file.find("JFIF");
  ASSERT_NE(jfif, std::string::npos);
  revision[jfif + 5] = 3;
  EXPECT_EQ(decode(revision).to_vector<uint8_t>(), pixels);
  std::string stray = file;
  stray.insert(file.find("\xff\xdb"), "abc");  // before a table of the header
  EXPECT_EQ(decode(stray).to_vector<uint8_t>(), pixels);
  stray = file;
  stray.insert(file.size() - 2, std::string(40, 'x'));  // behind the scan
  EXPECT_THAT(decode_error(stray), HasSubstr("extraneous bytes before marker 0xd9"));
}

TEST(ImageFile, ABmpIsReadUprightAndInRgb) {
  // Two rows of one pixel, stored from the bottom, blue first, rows padded to four bytes.
  std::string bmp(
      "BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\2\0\0\0\1\0\x18\0\0\0\0\0\x08\0\0\0", 38);
  bmp += std::string(16, '\0') + std::string("\3\2\1\0\6\5\4\0", 8);
  const Tensor image = decode(bmp);
  EXPECT_EQ(image.shape(), Shape({2, 1, 3}));
  EXPECT_EQ(image.to_vector<uint8_t>(), (Bytes{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(decode_error(bmp.substr(0, bmp.size() - 1)),
            "[decode_image] image: the BMP image is cut off: expected at least 62 bytes, found 61");
}

TEST(ImageFile, PgmAndPpmMayHaveCommentsAndAnyLargestValue) {
  EXPECT_EQ(decode("P5 # a comment\n2\t1\n# 9 9\n255\nab").to_vector<uint8_t>(), (Bytes{'a', 'b'}));
  // 255 * 1 / 3 = 85, and 255 * 100 / 1000 = 25.5.
  EXPECT_EQ(decode("P6 1 1 3\n" + std::string("\1\3\0", 3)).to_vector<uint8_t>(),
            (Bytes{85, 255, 0}));
  EXPECT_EQ(decode("P5 1 1 1000\n" + std::string("\0\x64", 2)).to_vector<uint8_t>(), (Bytes{26}));
  EXPECT_EQ(decode_error("P5 2 2 255\nabc"),
            "[decode_image] image: the PGM or PPM image is cut off: expected 15 bytes, found 14");
  EXPECT_THAT(decode_error("P5 2 0 255\nabc"), HasSubstr("wants a height of 1..65535"));
  EXPECT_THAT(decode_error("P6 2 2 99999999\nabc"), HasSubstr("wants a largest value of"));
  EXPECT_THAT(decode_error("P6 #"), HasSubstr("wants a width of 1..65535 before offset 4"));
}

TEST(ImageFile, DecodesIntoAPartOfABatch) {
  const Tensor batch = Tensor::zeros({3, 1, 2, 3}, {.dtype = DType::u8});
  const auto place = [&](size_t i) { return batch.alias({1, 2, 3}, 6 * i); };
  decode_image_into(bytes_of(palette_file), "a", place(1));
  EXPECT_EQ(batch.to_vector<uint8_t>(),
            (Bytes{0, 0, 0, 0, 0, 0, 255, 0, 0, 10, 20, 30, 0, 0, 0, 0, 0, 0}));
  const std::string jpeg = golden_file("jpeg 4:2:0");
  EXPECT_EQ(thrown<DataError>([&] { decode_image_into(bytes_of(jpeg), "b.jpg", place(0)); }),
            "[decode_image_into] b.jpg: expected an image of 1 x 2, found 13 x 19");
  expect_error<ShapeError>([&] { decode_image_into(bytes_of(jpeg), "b.jpg", batch); },
                           "wants an image (H, W, C) u8 on the CPU to write to, got (3, 1, 2, 3)");
  expect_error<Error>(
      [&] {
        decode_image_into(bytes_of(jpeg), "b.jpg", batch.alias({1, 2, 2}));
      },
      "channels may be 0 (the file's), 1, 3 or 4, got 2");
}

TEST(ImageFile, OtherKindsOfFilesAreNamed) {
  const TempDir dir;
  EXPECT_EQ(thrown<DataError>([&] { load_image(dir.write("empty.jpg", "")); }),
            "[load_image] " + (dir / "empty.jpg").string() +
                ": expected an image, found 0 bytes: the file is empty");
  EXPECT_EQ(decode_error("GIF89a..."),
            "[decode_image] image: expected a JPEG, PNG, BMP, PGM or PPM image, found a GIF image "
            "of 9 bytes");
  const std::map<std::string, std::string> kinds = {
      {std::string("RIFF\x12\0\0\0WEBPVP8 ", 16), "a WebP image"},
      {std::string("\0\0\0\x20"
                   "ftypavif",
                   12),
       "a HEIC, AVIF or video file"},
      {std::string("II*\0....", 8), "a TIFF image"},
      {"8BPS", "a Photoshop document"},
      {"P3\n1 1\n255\n1 2 3\n", "a PPM image in text"},
      {"<html><body>", "a web page (HTML)"},
      {"\xff\xd8", "a file that begins with the bytes ff d8"},
  };
  for (const auto& [content, kind] : kinds) {
    EXPECT_THAT(decode_error(content), HasSubstr("found " + kind));
  }
}

TEST(ImageFile, WhatCannotBeOpenedIsAnError) {
  const TempDir dir;
  EXPECT_EQ(thrown<DataError>([&] { load_image(dir / "none.png"); }),
            "[load_image] " + (dir / "none.png").string() + ": there is no such file");
  std::filesystem::create_directory(dir / "folder.png");
  EXPECT_THAT(thrown<DataError>([&] { load_image(dir / "folder.png"); }),
              HasSubstr("folder.png: this is not a file"));
  // Nobody writes to it: opening must not wait.
  ASSERT_EQ(mkfifo((dir / "pipe.png").c_str(), 0600), 0);
  EXPECT_THAT(thrown<DataError>([&] { load_image(dir / "pipe.png"); }),
              HasSubstr("pipe.png: this is not a file"));
}

TEST(ImageFile, AFileThatMayNotBeReadIsAnError) {
  namespace fs = std::filesystem;
  const TempDir dir;
  const fs::path locked = dir.write("locked.png", rgb_file);
  fs::permissions(locked, fs::perms::none);
  fs::permissions(dir.path(), fs::perms(0755));
  const AsNobody nobody;
  EXPECT_EQ(thrown<DataError>([&] { load_image(locked); }),
            "[load_image] " + locked.string() + ": it cannot be opened: Permission denied");
}

TEST(DamagedImages, APrefixOfAFileIsAnErrorAtEveryLength) {
  for (const auto& [name, tensor] : golden_images()) {
    if (tensor.rank() != 1) continue;
    const std::string file = golden_file(name);
    for (size_t length = 0; length < file.size(); ++length) {
      EXPECT_THAT(decode_error(file.substr(0, length), 3), StartsWith("[decode_image] image: "))
          << name << " of " << length << " bytes";
    }
  }
}

TEST(DamagedImages, ACutOffJpegIsNamedWithItsCause) {
  const std::string file = golden_file("jpeg 4:2:0");
  EXPECT_EQ(decode_error(file.substr(0, 700)),
            "[decode_image] image: the JPEG image cannot be decoded (700 bytes): Premature end of "
            "JPEG file");
  const std::string png = golden_file("png RGB");
  EXPECT_EQ(decode_error(png.substr(0, 400)),
            "[decode_image] image: the PNG image is cut off: its 400 bytes end before its last "
            "chunk");
}

TEST(DamagedImages, AnyChangedByteOfAPngIsNoticed) {
  const std::string file = golden_file("png RGB");
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = char(damaged[i] ^ 0x10);
    decode_error(damaged);
  }
}

// The file with its checksums put right, so that the change reaches the decoder.
std::string with_png_checksums(std::string file) {
  for (size_t offset = 8; offset + 12 <= file.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | uint8_t(file[offset + i]);
    if (length > file.size() - offset - 12) break;
    const std::string chunk =
        png_chunk(file.substr(offset + 4, 4), file.substr(offset + 8, length));
    file.replace(offset, chunk.size(), chunk);
    offset += chunk.size();
  }
  return file;
}

// What comes of it may be an image too; the sanitizers see what must not happen.
TEST(DamagedImages, ChangedBytesGiveAnImageOrAnError) {
  int errors = 0;
  for (const auto& [name, tensor] : golden_images()) {
    if (tensor.rank() != 1) continue;
    const std::string file = golden_file(name);
    for (size_t i = 0; i < file.size(); ++i) {
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string damaged = file;
        damaged[i] = char(damaged[i] ^ change);
        if (name.starts_with("png")) damaged = with_png_checksums(damaged);
        try {
          decode(damaged, 3);
        } catch (const DataError& error) {
          EXPECT_THAT(error.what(), StartsWith("[decode_image] image: "));
          ++errors;
        }
      }
    }
  }
  EXPECT_GT(errors, 1000);
}

TEST(DamagedImages, AHeaderThatPromisesMoreThanTheFileHoldsTakesNoMemory) {
  std::string file = golden_file("jpeg gray");
  const size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // height and width
  EXPECT_THAT(decode_error(file),
              HasSubstr("its header promises 65500 x 65500 pixels, more than its "));
}

TEST(DamagedImages, JpegsOfUnusualKindsAreErrors) {
  std::string file = golden_file("jpeg gray");
  const size_t frame = file.find("\xff\xc0");
  file[frame + 4] = 12;  // bits of a value
  EXPECT_THAT(decode_error(file), HasSubstr("Unsupported JPEG data precision 12"));
  file[frame + 4] = 8;
  file[frame + 1] = char(0xc3);
  EXPECT_THAT(decode_error(file), HasSubstr("Unsupported JPEG process: SOF type 0xc3"));
}

}  // namespace
}  // namespace adret
