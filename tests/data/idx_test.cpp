// IDX files: values, compression by content, and every way such a file can be wrong.
#include <adret/core/error.h>
#include <adret/data/idx.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

const std::string twelve_pixels = "abcdefghijkl";
const std::string three_images = idx(8, {3, 2, 2}, twelve_pixels);
const std::string three_labels = idx(8, {3}, std::string("\7\0\2", 3));

class IdxTest : public testing::Test {
 protected:
  std::string error(const std::string& content) const {
    return thrown<DataError>([&] { read_idx(dir_.write("file", content)); });
  }
  TempDir dir_;
};

TEST_F(IdxTest, ImagesKeepTheirBytesAndGetAChannel) {
  const Tensor images = read_idx_images(dir_.write("images", three_images)).values;
  EXPECT_EQ(images.shape(), Shape({3, 2, 2, 1}));
  EXPECT_EQ(images.to_vector<uint8_t>(),
            std::vector<uint8_t>(twelve_pixels.begin(), twelve_pixels.end()));
}

TEST_F(IdxTest, LabelsBecomeI32) {
  const Tensor labels = read_idx_labels(dir_.write("labels", three_labels)).values;
  EXPECT_EQ(labels.shape(), Shape({3}));
  EXPECT_EQ(labels.to_vector<int32_t>(), (std::vector<int32_t>{7, 0, 2}));
}

TEST_F(IdxTest, WiderElementsAreTurnedFromBigEndian) {
  // 258 and -2 in two's complement; 1.5 = 0x3fc00000 and -2.0 = 0xc0000000 (IEEE 754).
  const IdxFile ints =
      read_idx(dir_.write("i", idx(0x0c, {2}, std::string("\0\0\1\2\xff\xff\xff\xfe", 8))));
  EXPECT_EQ(ints.values.to_vector<int32_t>(), (std::vector<int32_t>{258, -2}));
  const IdxFile floats =
      read_idx(dir_.write("f", idx(0x0d, {1, 2}, std::string("\x3f\xc0\0\0\xc0\0\0\0", 8))));
  EXPECT_EQ(floats.values.shape(), Shape({1, 2}));
  EXPECT_EQ(floats.values.to_vector<float>(), (std::vector<float>{1.5f, -2.0f}));
}

TEST_F(IdxTest, GzipIsKnownByContentWhateverTheName) {
  const IdxFile plain = read_idx(dir_.write("plain.gz", three_images));
  const IdxFile packed = read_idx(dir_.write("packed", gzipped(three_images)));
  EXPECT_EQ(packed.values.to_vector<uint8_t>(), plain.values.to_vector<uint8_t>());
  EXPECT_EQ(packed.bytes, three_images.size());
  EXPECT_EQ(plain.bytes, three_images.size());
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(three_images.data()), uInt(three_images.size()));
  EXPECT_EQ(packed.checksum, crc);
  EXPECT_EQ(plain.checksum, crc);
}

TEST_F(IdxTest, AMissingFileAndAFolderAreNamed) {
  EXPECT_EQ(thrown<DataError>([&] { read_idx(dir_ / "none"); }),
            "[read_idx] " + (dir_ / "none").string() + ": there is no such file");
  EXPECT_EQ(thrown<DataError>([&] { read_idx(dir_.path()); }),
            "[read_idx] " + dir_.path().string() + ": this is not a file");
}

TEST_F(IdxTest, AnEmptyFileSaysSo) {
  EXPECT_EQ(error(""), "[read_idx] " + (dir_ / "file").string() +
                           ": expected 4 bytes (the magic number alone), found 0, offset of the "
                           "difference 0: the file is empty");
  EXPECT_THAT(error(gzipped("")), AllOf(HasSubstr("found 0"), HasSubstr("the file is empty")));
}

TEST_F(IdxTest, AShortBodyGivesPathExpectedAndFoundBytes) {
  // 16 + 60000 * 784 = 47040016 promised; 16 + 100 * 784 = 78416 there.
  const std::string content = idx(8, {60000, 28, 28}, std::string(78400, 'x'));
  EXPECT_EQ(error(content),
            "[read_idx] " + (dir_ / "file").string() +
                ": expected 47040016 bytes (60000 x 28 x 28 u8 and a header of 16), found 78416, "
                "offset of the difference 78416: the file is cut off or damaged; fetch it again");
}

TEST_F(IdxTest, AShortHeaderIsFound) {
  EXPECT_THAT(error(three_images.substr(0, 2)),
              HasSubstr("expected 4 bytes (the magic number alone), found 2"));
  EXPECT_THAT(error(three_images.substr(0, 10)),
              HasSubstr("expected 16 bytes (the header alone), found 10"));
}

TEST_F(IdxTest, BytesBehindTheLastElementAreFound) {
  EXPECT_THAT(
      error(three_images + "xy"),
      AllOf(HasSubstr("expected 28 bytes"), HasSubstr("found 30"),
            HasSubstr("offset of the difference 28"), HasSubstr("bytes follow the last element")));
  EXPECT_THAT(error(gzipped(three_images + "xy")), HasSubstr("found 30"));
}

TEST_F(IdxTest, AHugeHeaderIsRefusedBeforeMemoryIsTaken) {
  const std::vector<uint32_t> sizes(6, 0xffffffff);
  EXPECT_THAT(error(idx(8, sizes, "body")), HasSubstr("expected 18446744073709551615 bytes"));
  EXPECT_THAT(error(idx(8, {0x7fffffff, 0xffff, 28}, "body")), HasSubstr("found 20"));
  EXPECT_THAT(error(gzipped(idx(8, {60000, 28, 28}, "body"))),
              AllOf(HasSubstr("expected 47040016 bytes after decompression"),
                    HasSubstr("more than its gzip data can hold")));
}

TEST_F(IdxTest, ACutOffGzipFileIsFound) {
  const std::string packed = gzipped(three_images);
  EXPECT_THAT(error(packed.substr(0, packed.size() - 12)),
              HasSubstr("expected 28 bytes after decompression"));
  EXPECT_THAT(error(packed.substr(0, packed.size() - 5)),
              HasSubstr("the gzip data is cut off before its checksum (offset 28)"));
}

TEST_F(IdxTest, ADamagedGzipFileIsFound) {
  std::string packed = gzipped(three_images);
  packed[packed.size() - 6] ^= 1;  // in the checksum
  EXPECT_THAT(error(packed), HasSubstr("the gzip data is damaged after"));
}

TEST_F(IdxTest, OtherFilesAreCalledByTheirKind) {
  EXPECT_THAT(error("<!DOCTYPE html><title>404</title>"), HasSubstr("but a web page (HTML)"));
  EXPECT_THAT(error("PK\x03\x04zip"), HasSubstr("but a zip archive"));
  EXPECT_THAT(error(gzipped(gzipped(three_images))), HasSubstr("but a gzip file"));
  EXPECT_THAT(error("abcdefg"),
              HasSubstr("but a file that begins with the bytes 61 62 63 64 65 66 67"));
  EXPECT_THAT(error(idx(9, {1}, "x")), HasSubstr("not an IDX file of u8, i32, f32 or f64"));
}

TEST_F(IdxTest, LabelsGivenForImagesAndTheReverseAreTold) {
  const auto labels = dir_.write("l", three_labels);
  const auto images = dir_.write("i", three_images);
  EXPECT_EQ(
      thrown<DataError>([&] { read_idx_images(labels); }),
      "[read_idx] " + labels.string() +
          ": expected images (3 dimensions of u8, magic 0x00000803), found labels (3,) u8 cpu; "
          "the two files may be swapped");
  EXPECT_EQ(
      thrown<DataError>([&] { read_idx_labels(images); }),
      "[read_idx] " + images.string() +
          ": expected labels (1 dimension of u8, magic 0x00000801), found images (3, 2, 2) u8 "
          "cpu; the two files may be swapped");
  EXPECT_THAT(thrown<DataError>([&] {
                read_idx_labels(dir_.write("x", idx(8, {1, 2}, "ab")));
              }),
              HasSubstr("found values of (1, 2) u8 cpu; this is another data set"));
}

}  // namespace
}  // namespace adret
