// Finding MNIST's files in all their spellings, and sets that do not hold together.
#include <adret/core/error.h>
#include <adret/data/mnist.h>
#include <adret/data/transforms.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/data/formats.h"
#include "tests/support/data_variable.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string images(uint32_t count, uint32_t side = 28) {
  return idx(8, {count, side, side}, std::string(size_t(count) * side * side, 'x'));
}
std::string labels(const std::string& values) { return idx(8, {uint32_t(values.size())}, values); }

class MnistTest : public testing::Test {
 protected:
  // Four good files, three training samples and two of the test, below `folder`.
  void write_set(const std::string& folder = "") const {
    dir_.write(folder + "train-images-idx3-ubyte", images(3));
    dir_.write(folder + "train-labels-idx1-ubyte", labels(std::string("\7\0\11", 3)));
    dir_.write(folder + "t10k-images-idx3-ubyte", images(2));
    dir_.write(folder + "t10k-labels-idx1-ubyte", labels("\1\2"));
  }
  std::string error() const {
    return thrown<DataError>([&] { load_mnist(dir_.path()); });
  }
  TempDir dir_;
};

TEST_F(MnistTest, TheFourFilesBecomeTwoSets) {
  write_set();
  const Mnist mnist = load_mnist(dir_.path());
  EXPECT_EQ(mnist.train.images.shape(), Shape({3, 28, 28, 1}));
  EXPECT_EQ(mnist.train.images.dtype(), DType::u8);
  EXPECT_EQ(mnist.train.labels.to_vector<int32_t>(), (std::vector<int32_t>{7, 0, 9}));
  EXPECT_EQ(mnist.test.dataset().size(), 2);
  EXPECT_EQ(mnist.test.dataset().num_classes(), 10);
  EXPECT_EQ(mnist.name, "unknown");
  EXPECT_THAT(mnist.warnings, IsEmpty());  // a set of another size resembles none
}

TEST_F(MnistTest, BothSpellingsAndGzipAreFoundInTheFolderOrItsSubfolders) {
  dir_.write("fashion-mnist/train-images.idx3-ubyte", images(1));
  dir_.write("fashion-mnist/train-labels.idx1-ubyte.gz", gzipped(labels("\1")));
  dir_.write("fashion-mnist/t10k-images-idx3-ubyte.gz", gzipped(images(1)));
  dir_.write("fashion-mnist/t10k-labels-idx1-ubyte", labels("\2"));
  EXPECT_EQ(find_mnist({dir_.path()}), dir_ / "fashion-mnist");
  EXPECT_EQ(load_mnist(dir_.path()).test.labels.to_vector<int32_t>(), std::vector<int32_t>{2});
  write_set("mnist/");
  EXPECT_EQ(find_mnist({dir_ / "nowhere", dir_.path()}), dir_ / "mnist");
  write_set();
  EXPECT_EQ(find_mnist({dir_.path()}), dir_.path());
}

TEST_F(MnistTest, PlacesAreTheGivenOneAloneElseTheVariableThenDatasets) {
  const DataVariable variable(dir_.path());
  EXPECT_THAT(data_places("here"), ElementsAre("here"));
  EXPECT_THAT(data_places(), ElementsAre(dir_.path(), "datasets"));
}

TEST_F(MnistTest, ThePlacesLookedAtAreListedWithWhatTheyLack) {
  EXPECT_EQ(
      thrown<DataError>([&] { load_mnist(dir_ / "none"); }),
      "[load_mnist] found no folder with the four files of MNIST, gzipped or not; looked at\n  " +
          (dir_ / "none").string() +
          ": no such folder\nPass their folder, or set the environment variable ADRET_DATA to it");
  write_set("mnist/");
  fs::remove(dir_ / "mnist/train-labels-idx1-ubyte");
  const DataVariable variable(dir_.path());
  EXPECT_THAT(thrown<DataError>([&] { load_mnist(); }),
              AllOf(HasSubstr((dir_ / "mnist").string() + ": lacks train-labels-idx1-ubyte\n"),
                    HasSubstr("datasets: no such folder")));
}

TEST_F(MnistTest, CountsOfImagesAndLabelsMustAgree) {
  write_set();
  dir_.write("t10k-labels-idx1-ubyte", labels("\1\2\3"));
  EXPECT_THAT(error(), AllOf(HasSubstr("t10k-images-idx3-ubyte holds 2 images"),
                             HasSubstr("t10k-labels-idx1-ubyte holds 3 labels")));
}

TEST_F(MnistTest, SwappedFilesAreTold) {
  write_set();
  fs::rename(dir_ / "train-images-idx3-ubyte", dir_ / "other");
  fs::rename(dir_ / "train-labels-idx1-ubyte", dir_ / "train-images-idx3-ubyte");
  fs::rename(dir_ / "other", dir_ / "train-labels-idx1-ubyte");
  EXPECT_THAT(error(), HasSubstr("expected images"));
}

TEST_F(MnistTest, OtherImageSizesAndLabelsAbove9AreRefused) {
  write_set();
  dir_.write("train-labels-idx1-ubyte", labels(std::string("\7\0\12", 3)));
  EXPECT_THAT(error(), HasSubstr("label 10 of sample 2 (offset 10) is outside 0..9"));
  dir_.write("train-images-idx3-ubyte", images(3, 32));
  EXPECT_THAT(error(), HasSubstr("expected images of 28 x 28, found 32 x 32"));
}

TEST_F(MnistTest, FilesOfTheKnownSizeWithAnotherChecksumGiveAWarning) {
  write_set();
  const std::string blank(10000, '\0');
  dir_.write("t10k-labels-idx1-ubyte", labels(blank));
  dir_.write("t10k-images-idx3-ubyte.gz",
             gzipped(idx(8, {10000, 28, 28}, std::string(7840000, '\0'))));
  fs::remove(dir_ / "t10k-images-idx3-ubyte");
  const Mnist mnist = load_mnist(dir_.path());
  EXPECT_EQ(mnist.name, "unknown");
  ASSERT_EQ(mnist.warnings.size(), 2);
  EXPECT_THAT(mnist.warnings[1],
              AllOf(HasSubstr("t10k-labels-idx1-ubyte has the size of MNIST's file"),
                    HasSubstr("neither MNIST's 4ab9eff9 nor Fashion-MNIST's 80142c1f")));
  EXPECT_THAT(load_mnist(dir_.path(), {.verify = false}).warnings, IsEmpty());
}

// The real set, where the environment names it.
TEST(RealMnist, IsRecognisedAndHasTheKnownStatistics) {
  const char* const data = std::getenv("ADRET_DATA");
  if (!data || !find_mnist({data})) GTEST_SKIP() << "ADRET_DATA is not set, or has no MNIST";
  const Mnist mnist = load_mnist(data);
  ASSERT_THAT(mnist.warnings, IsEmpty());
  ASSERT_TRUE(mnist.name == "MNIST" || mnist.name == "Fashion-MNIST") << mnist.name;
  EXPECT_EQ(mnist.train.images.shape(), Shape({60000, 28, 28, 1}));
  EXPECT_EQ(mnist.test.images.shape(), Shape({10000, 28, 28, 1}));
  // Means and deviations as published with the sets.
  const Normalize normalize = Normalize::fit(mnist.train.images);
  EXPECT_NEAR(normalize.mean()[0], mnist.name == "MNIST" ? 0.1307 : 0.2860, 1e-4);
  EXPECT_NEAR(normalize.std()[0], mnist.name == "MNIST" ? 0.3081 : 0.3530, 1e-4);
}

}  // namespace
}  // namespace adret
