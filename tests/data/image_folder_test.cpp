// Folders and lists of images: classes, order, bad files, and batches of them.
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <adret/data/image_folder.h>
#include <adret/data/loader.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/formats.h"
#include "tests/support/as_nobody.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

namespace fs = std::filesystem;
using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Bytes = std::vector<uint8_t>;
using Names = std::vector<std::string>;

// An image of one pixel of this level in R, G and B.
std::string pixel(char level) { return png(1, 1, 2, std::string(3, level)); }

class ImageFolderTest : public testing::Test {
 protected:
  // Two classes, cat with the pixels 1 and 2, dog with 3.
  void write_set() const {
    dir_.write("dog/c.png", pixel(3));
    dir_.write("cat/b.png", pixel(2));
    dir_.write("cat/a.png", pixel(1));
  }
  fs::path path(const std::string& name) const { return dir_ / name; }
  std::string error(const ImageFolderOptions& options = {}) const {
    return thrown<DataError>([&] { ImageFolder(dir_.path(), options); });
  }
  std::string list_error(const std::string& list, const ImageFolderOptions& options = {}) const {
    dir_.write("list.txt", list);
    return thrown<DataError>([&] { ImageFolder::from_list(path("list.txt"), options); });
  }
  TempDir dir_;
};

const ImageFolderOptions skip = {.bad_files = BadFiles::skip};

std::vector<fs::path> paths_of(const ImageFolder& set) {
  std::vector<fs::path> paths;
  for (int64_t i = 0; i < set.size(); ++i) paths.push_back(set.path(i));
  return paths;
}

TEST_F(ImageFolderTest, SubfoldersAreClassesInTheOrderOfTheirNames) {
  write_set();
  dir_.write("cat/deeper/Z.PNG", pixel(9));
  dir_.write("cat/.hidden.png", "not an image");
  dir_.write(".git/x.png", "");
  dir_.write("README.txt", "beside the classes");
  const ImageFolder set(dir_.path());
  EXPECT_EQ(set.classes(), (Names{"cat", "dog"}));
  EXPECT_EQ(set.num_classes(), 2);
  EXPECT_THAT(paths_of(set), ElementsAre(path("cat/a.png"), path("cat/b.png"),
                                         path("cat/deeper/Z.PNG"), path("dog/c.png")));
  EXPECT_EQ(set.label(2), 0);
  EXPECT_EQ(set.label(3), 1);
  const Sample sample = set.get(3);
  EXPECT_EQ(sample.input.shape(), Shape({1, 1, 3}));
  EXPECT_EQ(sample.input.to_vector<uint8_t>(), (Bytes{3, 3, 3}));
  EXPECT_EQ(sample.target.item<int32_t>(), 1);
  EXPECT_THAT(set.skipped(), IsEmpty());
  EXPECT_EQ(thrown<Error>([&] { set.get(4); }), "[ImageFolder] index 4 is outside 0..3");
}

TEST_F(ImageFolderTest, BatchesAreTheImagesOfTheirIndices) {
  write_set();
  const Batch batch =
      ImageFolder(dir_.path()).get_batch({.indices = std::vector<int64_t>{2, 0, 1, 0}});
  EXPECT_EQ(batch.inputs.shape(), Shape({4, 1, 1, 3}));
  EXPECT_EQ(batch.inputs.to_vector<uint8_t>(), (Bytes{3, 3, 3, 1, 1, 1, 2, 2, 2, 1, 1, 1}));
  EXPECT_EQ(batch.targets.to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 0, 0}));
  EXPECT_THAT(batch.indices, ElementsAre(2, 0, 1, 0));
}

TEST_F(ImageFolderTest, MixedKindsOfImagesBecomeTheChannelsAskedFor) {
  dir_.write("a/gray.png", png(1, 1, 0, "\7"));
  dir_.write("a/palette.png", png(1, 1, 3, std::string(1, '\0'), "\1\2\3"));
  dir_.write("b/deep.png", png(1, 1, 2, std::string("\5\0\6\0\7\0", 6), "", 16));
  dir_.write("b/rgb.bmp", pixel(8));  // the content counts, not the ending
  dir_.write("b/rgba.png", png(1, 1, 6, "\1\2\3\4"));
  const std::vector<int64_t> all = {0, 1, 2, 3, 4};
  const ImageFolder set(dir_.path());
  EXPECT_EQ(set.get_batch({.indices = all}).inputs.to_vector<uint8_t>(),
            (Bytes{7, 7, 7, 1, 2, 3, 5, 6, 7, 8, 8, 8, 1, 2, 3}));
  EXPECT_EQ(ImageFolder(dir_.path(), {.channels = 1}).get_batch({.indices = all}).inputs.shape(),
            Shape({5, 1, 1, 1}));
  const ImageFolder own(dir_.path(), {.channels = 0});
  EXPECT_EQ(own.get(0).input.shape(), Shape({1, 1, 1}));
  EXPECT_EQ(thrown<DataError>([&] { own.get_batch({.indices = all}); }),
            "[Dataset] item 1: [ImageFolder] " + path("a/palette.png").string() +
                ": expected an image (1, 1, 1) like " + path("a/gray.png").string() +
                ", found (1, 1, 3); the images of a batch must be alike, for instance by the "
                "options for resizing");
  EXPECT_EQ(thrown<Error>([&] { ImageFolder(dir_.path(), {.channels = 2}); }),
            "[ImageFolder] channels may be 0 (the files' own), 1, 3 or 4, got 2");
}

TEST_F(ImageFolderTest, ImagesOfDifferentSizesAreNamed) {
  write_set();
  dir_.write("dog/d.png", png(2, 1, 2, std::string(6, 'x')));
  const ImageFolder set(dir_.path());
  EXPECT_EQ(thrown<DataError>([&] {
              set.get_batch({.indices = std::vector<int64_t>{1, 3}});
            }),
            "[Dataset] item 3: [ImageFolder] " + path("dog/d.png").string() +
                ": expected an image (1, 1, 3) like " + path("cat/b.png").string() +
                ", found (1, 2, 3); the images of a batch must be alike, for instance by the "
                "options for resizing");
}

TEST_F(ImageFolderTest, ImagesOfDifferentSizesAreResizedAndCut) {
  // Columns of 0, 30, 60, 90 and 120, and one level.
  dir_.write("a/wide.png", png(5, 1, 0, std::string("\0\x1e\x3c\x5a\x78", 5)));
  dir_.write("b/tall.png", png(3, 6, 0, std::string(18, '\7')));
  const std::vector<int64_t> all = {0, 1};
  const auto batch = [&](const ImageFolderOptions& options) {
    return ImageFolder(dir_.path(), options).get_batch({.indices = all}).inputs;
  };
  EXPECT_EQ(batch({.channels = 1, .resize = {2, 4}}).shape(), Shape({2, 2, 4, 1}));
  // One row is the shorter side already; the centre of (1, 5) and of (2, 1) is a pixel.
  const Tensor centres = batch({.channels = 1, .resize_shorter_side = 1, .center_crop = 1});
  EXPECT_EQ(centres.to_vector<uint8_t>(), (Bytes{60, 7}));
  EXPECT_EQ(ImageFolder(dir_.path(), {.channels = 1, .center_crop = {1, 3}})
                .get(0)
                .input.to_vector<uint8_t>(),
            (Bytes{30, 60, 90}));
  const ImageFolderOptions too_large = {
      .center_crop = 3, .bad_files = BadFiles::skip, .allow_one_class = true};
  EXPECT_THAT(
      thrown<DataError>([&] { batch({.center_crop = 3}); }),
      HasSubstr("item 0: [ImageFolder] " + path("a/wide.png").string() + ": [center_crop] "));
  EXPECT_THAT(ImageFolder(dir_.path(), too_large).skipped(), SizeIs(2));  // and its class
  EXPECT_EQ(thrown<Error>([&] { batch({.resize = 8, .resize_shorter_side = 8}); }),
            "[ImageFolder] set resize or resize_shorter_side, not both");
}

TEST_F(ImageFolderTest, TheTestSetTakesTheTrainingSetsClasses) {
  write_set();
  fs::create_directory(path("ant"));
  EXPECT_EQ(error({.classes = {"ant", "bee", "cat", "dog"}}),
            "[ImageFolder] " + path("ant").string() +
                ": the folder of this class holds no image; with bad_files = BadFiles::skip it is "
                "left out");
  dir_.write("ant/a.png", pixel(0));
  EXPECT_THAT(error({.classes = {"ant", "bee", "cat", "dog"}}),
              HasSubstr(path("bee").string() + ": this class has no folder"));
  EXPECT_THAT(error({.classes = {"ant", "cat"}}),
              HasSubstr(path("dog").string() + ": there is no class of this name in `classes`"));
  const ImageFolder set(dir_.path(),
                        {.bad_files = BadFiles::skip, .classes = {"dog", "cat", "ant", "bee"}});
  EXPECT_EQ(set.label(0), 2);
  EXPECT_EQ(set.label(3), 0);
  EXPECT_EQ(set.num_classes(), 4);
}

TEST_F(ImageFolderTest, FewerThanTwoClassesAreAnError) {
  EXPECT_EQ(error(), "[ImageFolder] " + dir_.path().string() +
                         ": expected a subfolder for each class, found none and 0 files; for "
                         "images in one folder use ImageFolder::from_list");
  dir_.write("cat/a.png", pixel(1));
  EXPECT_EQ(error(), "[ImageFolder] " + dir_.path().string() +
                         ": found images of one class (\"cat\"), wanted at least two; set "
                         "allow_one_class if that is meant");
  EXPECT_EQ(ImageFolder(dir_.path(), {.allow_one_class = true}).num_classes(), 1);
  EXPECT_THAT(thrown<DataError>([&] { ImageFolder(path("none")); }),
              HasSubstr("none: there is no such folder"));
  EXPECT_THAT(thrown<DataError>([&] { ImageFolder(path("cat/a.png")); }),
              HasSubstr("expected a folder with a subfolder for each class"));
}

TEST_F(ImageFolderTest, AnEmptyClassIsAnErrorOrListed) {
  write_set();
  fs::create_directory(path("bee"));
  EXPECT_THAT(error(),
              HasSubstr(path("bee").string() + ": the folder of this class holds no image"));
  const ImageFolder set(dir_.path(), skip);
  EXPECT_EQ(set.classes(), (Names{"bee", "cat", "dog"}));
  ASSERT_THAT(set.skipped(), SizeIs(1));
  EXPECT_EQ(set.skipped()[0].path, path("bee"));
  EXPECT_EQ(set.label(0), 1);
}

TEST_F(ImageFolderTest, AClassThatLosesAllItsImagesIsListed) {
  write_set();
  dir_.write("bee/a.png", "");
  dir_.write("bee/b.png", "");
  const ImageFolder set(dir_.path(), skip);
  EXPECT_EQ(set.num_classes(), 3);
  ASSERT_THAT(set.skipped(), SizeIs(3));
  EXPECT_EQ(set.skipped()[2].path, dir_.path());
  EXPECT_EQ(set.skipped()[2].reason, "the class \"bee\" lost its 2 images, all bad");
  dir_.write("cat/a.png", "");
  dir_.write("cat/b.png", "");
  EXPECT_THAT(error(skip),
              HasSubstr("found images of one class (\"dog\"), wanted at least two; set "
                        "allow_one_class if that is meant (6 bad files were left out"));
}

TEST_F(ImageFolderTest, ImagesThatCannotBeResizedAreBadFiles) {
  write_set();
  dir_.write("dog/line.png", png(5000, 1, 0, std::string(5000, 'x')));
  const std::string reason =
      "[resize_shorter_side] an image of 1 x 5000 is too narrow to enlarge: its longer side may be "
      "64 times the shorter one at most; leave it out, or set resize";
  ImageFolderOptions options = {.resize_shorter_side = 256, .center_crop = 224};
  const ImageFolder all(dir_.path(), options);
  const std::string line = path("dog/line.png").string();
  EXPECT_EQ(thrown<DataError>([&] { all.get(3); }), "[ImageFolder] " + line + ": " + reason);
  options.bad_files = BadFiles::skip;
  const ImageFolder set(dir_.path(), options);
  EXPECT_EQ(set.size(), 3);
  ASSERT_THAT(set.skipped(), SizeIs(1));
  EXPECT_EQ(set.skipped()[0].path, line);
  EXPECT_EQ(set.skipped()[0].reason, reason);
  EXPECT_EQ(ImageFolder(dir_.path(), {.resize_shorter_side = 1}).get(3).input.shape(),
            Shape({1, 5000, 3}));
  // Beyond the longest side that there is.
  dir_.write("dog/line.png", png(2, 1, 0, "xx"));
  const ImageFolder large(dir_.path(), {.resize_shorter_side = 1 << 20});
  EXPECT_EQ(thrown<DataError>([&] { large.get(3); }),
            "[ImageFolder] " + line +
                ": [resize] the size is 1048576x2097152, wanted sides of 1..1048576");
}

TEST_F(ImageFolderTest, ALabelThatNoLineHasIsAnErrorUnlessClassesAreNamed) {
  dir_.write("a.png", pixel(1));
  EXPECT_EQ(list_error("a.png 5\n"),
            "[ImageFolder] " + path("list.txt").string() +
                ": no line has the label 0, and one has 5; number the classes from 0, or name them "
                "all in `classes`");
  EXPECT_THAT(list_error("a.png 0\na.png 2", skip), HasSubstr("no line has the label 1"));
  dir_.write("list.txt", "a.png 0\na.png 2");
  const ImageFolder set = ImageFolder::from_list(path("list.txt"), {.classes = {"x", "y", "z"}});
  EXPECT_EQ(set.num_classes(), 3);
  EXPECT_THAT(list_error("a.png 2\na.png 2", {.classes = {"x", "y", "z"}}),
              HasSubstr("found images of one class (\"z\")"));
}

TEST_F(ImageFolderTest, BadFilesAreErrorsWhenTheyAreRead) {
  write_set();
  const std::string good = pixel(1);
  dir_.write("cat/cut.png", good.substr(0, good.size() - 20));
  dir_.write("dog/empty.jpg", "");
  const ImageFolder set(dir_.path());
  ASSERT_EQ(set.size(), 5);
  EXPECT_THAT(thrown<DataError>([&] { set.get(2); }),
              HasSubstr(path("cat/cut.png").string() + ": the PNG image is cut off"));
  // The first in the batch, for any number of threads.
  EXPECT_EQ(thrown<DataError>([&] {
              set.get_batch({.indices = std::vector<int64_t>{0, 4, 1, 2}});
            }),
            "[Dataset] item 4: [ImageFolder] " + path("dog/empty.jpg").string() +
                ": expected an image, found 0 bytes: the file is empty");
}

TEST_F(ImageFolderTest, SkippedFilesAreListedWithTheirReasons) {
  write_set();
  const std::string good = pixel(1);
  dir_.write("cat/cut.png", good.substr(0, good.size() - 20));
  dir_.write("dog/empty.jpg", "");
  dir_.write("dog/notes.txt", "woof");
  fs::create_symlink("nowhere", path("dog/link.png"));
  EXPECT_THAT(error(), HasSubstr(path("dog/link.png").string() + ": there is no such file"));
  fs::remove(path("dog/link.png"));
  EXPECT_EQ(error(), "[ImageFolder] " + path("dog/notes.txt").string() +
                         ": expected image files ending in .jpg, .jpeg, .png, .bmp, .pgm, .ppm; "
                         "with bad_files = BadFiles::skip it is left out");
  const ImageFolder set(dir_.path(), skip);
  EXPECT_THAT(paths_of(set), ElementsAre(path("cat/a.png"), path("cat/b.png"), path("dog/c.png")));
  ASSERT_THAT(set.skipped(), SizeIs(3));
  EXPECT_EQ(set.skipped()[0].path, path("dog/notes.txt"));
  EXPECT_EQ(set.skipped()[1].path, path("cat/cut.png"));
  EXPECT_THAT(set.skipped()[1].reason, testing::StartsWith("the PNG image is cut off: its "));
  EXPECT_EQ(set.skipped()[2].path, path("dog/empty.jpg"));
  EXPECT_EQ(set.skipped()[2].reason, "expected an image, found 0 bytes: the file is empty");
  // All of it bad.
  EXPECT_THAT(thrown<DataError>([&] {
                ImageFolder::from_items({{path("dog/empty.jpg"), 0}}, {"a", "b"}, skip);
              }),
              HasSubstr("expected images, found none (1 bad files were left out, the first " +
                        path("dog/empty.jpg").string()));
}

TEST_F(ImageFolderTest, AFileThatTurnsBadIsAnErrorInTheLoop) {
  for (int i = 0; i < 20; ++i)
    dir_.write((i < 10 ? "a/" : "b/") + std::to_string(i) + ".png", pixel(1));
  const ImageFolder set(dir_.path(), skip);
  dir_.write("b/17.png", "");
  for (const int workers : {0, 3}) {
    const DataLoader loader(set, {.batch_size = 5, .workers = workers});
    int batches = 0;
    const std::string message = thrown<DataError>([&] {
      for (const Batch& batch : loader.epoch(0)) batches += batch.size() == 5;
    });
    EXPECT_EQ(message, "[DataLoader] epoch 0, batch 3: [Dataset] item 17: [ImageFolder] " +
                           path("b/17.png").string() +
                           ": expected an image, found 0 bytes: the file is empty");
    EXPECT_EQ(batches, 3);
  }
}

TEST_F(ImageFolderTest, ALoopMayEndAtItsFirstBatch) {
  for (int i = 0; i < 200; ++i) {
    dir_.write((i < 100 ? "a/" : "b/") + std::to_string(i) + ".png", pixel(1));
  }
  const DataLoader loader(ImageFolder(dir_.path()), {.batch_size = 2, .workers = 4});
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    for (const Batch& batch : loader.epoch(epoch)) {
      EXPECT_EQ(batch.size(), 2);
      break;
    }
  }
}

TEST_F(ImageFolderTest, UnreadableFilesAndFoldersAreErrorsOrListed) {
  write_set();
  fs::permissions(dir_.path(), fs::perms(0755));
  fs::permissions(path("dog/c.png"), fs::perms::none);
  fs::permissions(path("cat"), fs::perms::none);
  {
    const AsNobody nobody;
    EXPECT_THAT(error(),
                HasSubstr(path("cat").string() + ": the folder cannot be read: Permission denied"));
    EXPECT_THAT(thrown<DataError>([&] { ImageFolder(dir_.path(), skip); }),
                HasSubstr("expected images, found none (3 bad files were left out"));
    EXPECT_THAT(thrown<DataError>([&] {
                  ImageFolder::from_items({{path("dog/c.png"), 0}}, {"a"},
                                          {.allow_one_class = true})
                      .get(0);
                }),
                HasSubstr("dog/c.png: it cannot be opened: Permission denied"));
  }
  fs::permissions(path("cat"), fs::perms::owner_all);
}

TEST_F(ImageFolderTest, AListHasPathsWithSpacesAndBlankLines) {
  dir_.write("my images/a b.png", pixel(1));
  dir_.write("c.png", pixel(2));
  dir_.write("list.txt", "\xef\xbb\xbfmy images/a b.png 2\r\n\r\n  c.png\t0  \n" +
                             path("c.png").string() + " 1\n \n\n");
  const ImageFolder set = ImageFolder::from_list(path("list.txt"));
  EXPECT_THAT(paths_of(set), ElementsAre(path("my images/a b.png"), path("c.png"), path("c.png")));
  EXPECT_EQ(set.get_batch({.indices = std::vector<int64_t>{0, 1, 2}}).targets.to_vector<int32_t>(),
            (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(set.classes(), (Names{"0", "1", "2"}));
  EXPECT_EQ(ImageFolder::from_list(path("list.txt"), {.classes = {"x", "y", "z", "w"}}).classes(),
            (Names{"x", "y", "z", "w"}));
}

TEST_F(ImageFolderTest, WrongLinesOfAListAreNamed) {
  dir_.write("a.png", pixel(1));
  const std::string list = path("list.txt").string();
  EXPECT_EQ(list_error("a.png 0\n\na.png cat\n"),
            "[ImageFolder] " + list +
                ", line 3: expected a path, a space and a label of 0..65535, found \"a.png cat\"");
  for (const std::string line :
       {"a.png", "a.png -1", "a.png 1x", "a.png 65536", "7", "a.png 99999999999999999999"}) {
    EXPECT_THAT(list_error("a.png 0\na.png 1\n" + line), HasSubstr("line 3: expected a path"));
  }
  EXPECT_THAT(list_error("a.png 2", {.classes = {"x", "y"}}), HasSubstr("a label of 0..1, found"));
  EXPECT_EQ(list_error("a.png 0\nnone.png 1"),
            "[ImageFolder] " + path("none.png").string() + ": there is no such file (" + list +
                ", line 2); with bad_files = BadFiles::skip it is left out");
  EXPECT_THAT(list_error(""), HasSubstr("list.txt: expected images, found none"));
  EXPECT_THAT(list_error("a.png 0"),
              HasSubstr("found images of one class (\"0\"), wanted at least two"));
  dir_.write("list.txt", "a.png 0\nnone.png 1\na.png 1");
  const ImageFolder set = ImageFolder::from_list(path("list.txt"), skip);
  EXPECT_EQ(set.size(), 2);
  ASSERT_THAT(set.skipped(), SizeIs(1));
  EXPECT_EQ(set.skipped()[0].reason, "there is no such file (" + list + ", line 2)");
  EXPECT_EQ(thrown<DataError>([&] { ImageFolder::from_list(path("no.txt")); }),
            "[ImageFolder] " + path("no.txt").string() + ": there is no such file");
}

TEST_F(ImageFolderTest, ItemsGivenAreTakenAsTheyAre) {
  write_set();
  const ImageFolder set =
      ImageFolder::from_items({{path("dog/c.png"), 1}, {path("cat/a.png"), 0}}, {"cat", "dog"});
  EXPECT_EQ(set.get(0).target.item<int32_t>(), 1);
  EXPECT_EQ(thrown<Error>([&] {
              ImageFolder::from_items({{path("dog/c.png"), 2}}, {"cat", "dog"});
            }),
            "[ImageFolder] item 0 (" + path("dog/c.png").string() +
                ") has label 2; with 2 classes labels are 0..1");
}

TEST_F(ImageFolderTest, BatchesAreTheSameForAnyNumberOfWorkers) {
  for (char i = 0; i < 50; ++i) {
    dir_.write((i % 2 ? "a/" : "b/") + std::to_string(i) + ".png", pixel(i));
  }
  dir_.write("a/bad.png", "");
  const ImageFolder set(dir_.path(), skip);
  std::vector<Bytes> reference;
  for (const int workers : {0, 1, 4}) {
    const DataLoader loader(set, {.batch_size = 8, .shuffle = true, .seed = 3, .workers = workers});
    std::vector<Bytes> batches;
    for (const Batch& batch : loader.epoch(1)) batches.push_back(batch.inputs.to_vector<uint8_t>());
    if (reference.empty()) reference = batches;
    EXPECT_EQ(batches, reference) << workers;
  }
  EXPECT_THAT(reference, SizeIs(7));
}

}  // namespace
}  // namespace adret
