// CIFAR's binary files: the order of their bytes, sets that do not hold together, the real set.
#include <adret/core/error.h>
#include <adret/data/cifar.h>
#include <adret/data/transforms.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/data_variable.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A record of one colour.
std::string record(const std::string& labels, const std::string& rgb = "\1\2\3") {
  return labels + std::string(1024, rgb[0]) + std::string(1024, rgb[1]) + std::string(1024, rgb[2]);
}
std::string byte(int value) { return std::string(1, char(value)); }

class Cifar10Test : public testing::Test {
 protected:
  // Six good files of one image; training labels 1 to 5, the test's 9.
  void write_set(const std::string& folder = "") const {
    for (int i = 1; i <= 5; ++i) {
      dir_.write(fmt::format("{}data_batch_{}.bin", folder, i), record(byte(i)));
    }
    dir_.write(folder + "test_batch.bin", record("\11"));
  }
  std::string error() const {
    return thrown<DataError>([&] { load_cifar10(dir_.path()); });
  }
  TempDir dir_;
};

TEST_F(Cifar10Test, TheBatchesBecomeTwoSetsInTheirOrder) {
  write_set();
  dir_.write("data_batch_2.bin", record(byte(0)) + record("\6"));
  const Cifar cifar = load_cifar10(dir_.path());
  EXPECT_EQ(cifar.train.images.shape(), Shape({6, 32, 32, 3}));
  EXPECT_EQ(cifar.train.images.dtype(), DType::u8);
  EXPECT_EQ(cifar.train.labels.to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 6, 3, 4, 5}));
  EXPECT_EQ(cifar.test.labels.to_vector<int32_t>(), std::vector<int32_t>{9});
  EXPECT_EQ(cifar.test.dataset().num_classes(), 10);
  ASSERT_THAT(cifar.classes, SizeIs(10));
  EXPECT_EQ(cifar.classes[0], "airplane");
  EXPECT_EQ(cifar.classes[9], "truck");
}

TEST_F(Cifar10Test, PlanesBecomePixels) {
  write_set();
  // The planes count up, from another byte each: pixel i is (i, i + 7, i + 31), each modulo 256.
  std::string image("\4");
  for (const int first : {0, 7, 31}) {
    for (int i = 0; i < 1024; ++i) image += char(first + i);
  }
  dir_.write("test_batch.bin", record("\11") + image);
  const Tensor images = load_cifar10(dir_.path()).test.images;
  const auto pixels = images.span<uint8_t>();
  ASSERT_EQ(pixels.size(), 2 * 3072);
  for (size_t i = 0; i < 1024; ++i) {
    EXPECT_EQ(pixels[3 * i], 1);
    EXPECT_EQ(pixels[3072 + 3 * i], uint8_t(i));
    EXPECT_EQ(pixels[3072 + 3 * i + 1], uint8_t(i + 7));
    EXPECT_EQ(pixels[3072 + 3 * i + 2], uint8_t(i + 31));
  }
}

TEST_F(Cifar10Test, IsFoundInTheFolderOrItsSubfolders) {
  write_set("cifar-10-batches-bin/");
  EXPECT_EQ(find_cifar10({dir_ / "nowhere", dir_.path()}), dir_ / "cifar-10-batches-bin");
  const DataVariable variable(dir_.path());
  EXPECT_EQ(load_cifar10().train.images.size(0), 5);
  write_set();
  EXPECT_EQ(find_cifar10({dir_.path()}), dir_.path());
  fs::remove(dir_ / "data_batch_3.bin");
  EXPECT_EQ(find_cifar10({dir_.path()}), dir_ / "cifar-10-batches-bin");
}

TEST_F(Cifar10Test, MissingBatchesAreNamed) {
  write_set();
  fs::remove(dir_ / "data_batch_4.bin");
  fs::remove(dir_ / "test_batch.bin");
  EXPECT_EQ(error(),
            "[load_cifar10] found no folder with the six files of CIFAR-10's binary version; "
            "looked at\n  " +
                dir_.path().string() +
                ": lacks data_batch_4.bin, test_batch.bin\nPass their folder, or set the "
                "environment variable ADRET_DATA to it");
}

TEST_F(Cifar10Test, OtherFormsOfTheSetAreRecognised) {
  dir_.write("cifar-10-binary.tar.gz", "");
  EXPECT_THAT(error(), HasSubstr("test_batch.bin; it holds cifar-10-binary.tar.gz: unpack that "
                                 "with tar -xf cifar-10-binary.tar.gz\n"));
  fs::remove(dir_ / "cifar-10-binary.tar.gz");
  fs::create_directory(dir_ / "cifar-10-batches-py");
  EXPECT_THAT(error(), HasSubstr("it holds cifar-10-batches-py, the set as Python pickles: take "
                                 "the binary version\n"));
}

TEST_F(Cifar10Test, TruncatedFilesAreToldWithTheOffset) {
  write_set();
  const fs::path path =
      dir_.write("data_batch_5.bin", (record("\1") + record("\2")).substr(0, 5000));
  EXPECT_EQ(error(), "[load_cifar10] " + path.string() +
                         ": expected records of 3073 bytes (1 of labels and 3 x 32 x 32 of "
                         "pixels), found 5000 bytes: 1 records and 1927 bytes from offset 3073 on; "
                         "it is a file that begins with the bytes 01 01 01 01 01 01 01 01, cut off "
                         "or no file of this set");
  dir_.write("data_batch_5.bin", "");
  EXPECT_THAT(error(), HasSubstr("data_batch_5.bin: expected records of 3073 bytes (1 of labels "
                                 "and 3 x 32 x 32 of pixels), found 0 bytes"));
  dir_.write("data_batch_5.bin", "\x1f\x8b rest");
  EXPECT_THAT(error(), HasSubstr("it is a gzip file, cut off or no file of this set"));
}

TEST_F(Cifar10Test, LabelsAbove9AreRefusedWithRecordAndOffset) {
  write_set();
  dir_.write("data_batch_2.bin", record("\2") + record("\3") + record("\12"));
  EXPECT_EQ(error(), "[load_cifar10] " + (dir_ / "data_batch_2.bin").string() +
                         ": label 10 of record 2 (offset 6146) is outside 0..9");
}

TEST_F(Cifar10Test, AFolderInAFilesPlaceIsNoFile) {
  write_set();
  fs::remove(dir_ / "data_batch_1.bin");
  fs::create_directory(dir_ / "data_batch_1.bin");
  EXPECT_EQ(error(),
            "[load_cifar10] " + (dir_ / "data_batch_1.bin").string() + ": this is not a file");
}

TEST_F(Cifar10Test, FilesCutOffBetweenRecordsGiveWarnings) {
  write_set();
  const Cifar cifar = load_cifar10(dir_.path());
  EXPECT_EQ(cifar.name, "unknown");
  ASSERT_THAT(cifar.warnings, SizeIs(6));
  EXPECT_THAT(cifar.warnings,
              Each(EndsWith(" holds 1 images where CIFAR-10 has 10000: it is cut off, or of "
                            "another set")));
  EXPECT_THAT(cifar.warnings[5], HasSubstr("test_batch.bin"));
  EXPECT_THAT(load_cifar10(dir_.path(), {.verify = false}).warnings, IsEmpty());
}

TEST_F(Cifar10Test, OtherLabelsThanTheKnownSetsGiveAWarning) {
  std::string batch;
  for (int i = 0; i < 10000; ++i) batch += record(byte(i % 10));
  for (int i = 1; i <= 5; ++i) dir_.write(fmt::format("data_batch_{}.bin", i), batch);
  dir_.write("test_batch.bin", batch);
  const Cifar cifar = load_cifar10(dir_.path());
  EXPECT_EQ(cifar.name, "unknown");
  ASSERT_THAT(cifar.warnings, SizeIs(2));
  EXPECT_THAT(cifar.warnings[0],
              AllOf(HasSubstr(dir_.path().string() + ": the training labels have the checksum "),
                    HasSubstr("CIFAR-10's 4ee6ac62: the files are damaged, in another order")));
}

class Cifar100Test : public testing::Test {
 protected:
  TempDir dir_;
};

TEST_F(Cifar100Test, FineLabelsAreTheDefaultCoarseOnesAnOption) {
  dir_.write("cifar-100-binary/train.bin", record("\4\127") + record("\23\143"));
  dir_.write("cifar-100-binary/test.bin", record(std::string("\0\1", 2)));
  const Cifar fine = load_cifar100(dir_.path());
  EXPECT_EQ(fine.train.images.shape(), Shape({2, 32, 32, 3}));
  EXPECT_EQ(fine.train.images.to_vector<uint8_t>()[3071], 3);
  EXPECT_EQ(fine.train.labels.to_vector<int32_t>(), (std::vector<int32_t>{87, 99}));
  EXPECT_EQ(fine.train.dataset().num_classes(), 100);
  ASSERT_THAT(fine.classes, SizeIs(100));
  EXPECT_EQ(fine.classes[87], "television");
  const Cifar coarse = load_cifar100(dir_.path(), {.coarse = true});
  EXPECT_EQ(coarse.train.labels.to_vector<int32_t>(), (std::vector<int32_t>{4, 19}));
  EXPECT_EQ(coarse.test.dataset().num_classes(), 20);
  ASSERT_THAT(coarse.classes, SizeIs(20));
  EXPECT_EQ(coarse.classes[19], "vehicles_2");
}

TEST_F(Cifar100Test, LabelsOutsideOfEitherRangeAreRefused) {
  const auto error = [&] { return thrown<DataError>([&] { load_cifar100(dir_.path()); }); };
  dir_.write("test.bin", record("\1\1"));
  dir_.write("train.bin", record("\1\1") + record("\1\144"));
  EXPECT_THAT(error(), EndsWith("train.bin: fine label 100 of record 1 (offset 3075) is outside "
                                "0..99"));
  dir_.write("train.bin", record("\1\1") + record("\24\1"));
  EXPECT_THAT(error(), EndsWith("train.bin: coarse label 20 of record 1 (offset 3074) is outside "
                                "0..19"));
  // CIFAR-10's record is one byte shorter.
  dir_.write("train.bin", record("\1"));
  EXPECT_THAT(error(), HasSubstr("train.bin: expected records of 3074 bytes"));
}

TEST_F(Cifar100Test, ClassesOfDifferentSizesGiveAWarning) {
  // Class i in superclass i / 5, 500 and 100 images each, but for the first image of the test.
  std::string labelled;
  for (int i = 0; i < 10000; ++i) labelled += record({char(i % 100 / 5), char(i % 100)});
  std::string train;
  for (int i = 0; i < 5; ++i) train += labelled;
  dir_.write("train.bin", train);
  dir_.write("test.bin", labelled);
  EXPECT_EQ(load_cifar100(dir_.path()).name, "CIFAR-100");
  labelled[1] = 7;
  dir_.write("test.bin", labelled);
  const Cifar cifar = load_cifar100(dir_.path());
  EXPECT_EQ(cifar.name, "unknown");
  ASSERT_THAT(cifar.warnings, SizeIs(1));
  EXPECT_THAT(cifar.warnings[0], HasSubstr("fine label 0 has 99 test images, in CIFAR-100 100"));
}

// The real set, where the environment names it.
TEST(RealCifar10, IsRecognisedAndHasTheKnownStatistics) {
  const char* const data = std::getenv("ADRET_DATA");
  if (!data || !find_cifar10({data})) GTEST_SKIP() << "ADRET_DATA is not set, or has no CIFAR-10";
  const Cifar cifar = load_cifar10(data);
  EXPECT_THAT(cifar.warnings, IsEmpty());
  EXPECT_EQ(cifar.name, "CIFAR-10");
  // Means and deviations as published with many models.
  const Normalize normalize = Normalize::fit(cifar.train.images);
  const double mean[] = {0.4914, 0.4822, 0.4465}, std[] = {0.2470, 0.2435, 0.2616};
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(normalize.mean()[c], mean[c], 1e-4);
    EXPECT_NEAR(normalize.std()[c], std[c], 1e-4);
  }
}

}  // namespace
}  // namespace adret
