// Choices kept on disk: what is read back, what is ignored, and writers at the same time.
#include <adret/core/cuda/plan_file.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace adret::cuda {
namespace {

using test::TempDir;

const std::string device = "A GPU, 100 multiprocessors";

TEST(PlanFile, ChoicesComeBack) {
  const TempDir dir;
  {
    PlanFile file(dir.path() / "new" / "folders", "conv", device);
    EXPECT_EQ(file.find("a"), std::nullopt);
    file.store("a", "first");
    file.store("b c", "x=1, y=2");
    file.store("a", "second");
    EXPECT_EQ(file.find("a"), "second");
  }
  PlanFile again(dir.path() / "new" / "folders", "conv", device);
  EXPECT_EQ(again.find("a"), "second");
  EXPECT_EQ(again.find("b c"), "x=1, y=2");
  EXPECT_EQ(again.find("b"), std::nullopt);
}

TEST(PlanFile, TheFirstChoiceIsWrittenAtOnce) {
  const TempDir dir;
  PlanFile file(dir.path(), "conv", device);
  file.store("a", "1");
  EXPECT_EQ(PlanFile(dir.path(), "conv", device).find("a"), "1");
}

TEST(PlanFile, AnotherFamilyOrDescriptionIsAnotherFile) {
  const TempDir dir;
  PlanFile(dir.path(), "conv", device).store("a", "1");
  EXPECT_EQ(PlanFile(dir.path(), "matmul", device).find("a"), std::nullopt);
  EXPECT_EQ(PlanFile(dir.path(), "conv", device + ", driver 2").find("a"), std::nullopt);
}

// Two descriptions might have one hash: the header decides.
TEST(PlanFile, AFileWithAnotherHeaderIsIgnoredAndReplaced) {
  const TempDir dir;
  PlanFile other(dir.path(), "conv", "another GPU");
  other.store("a", "1");
  PlanFile file(dir.path(), "conv", device);
  std::filesystem::copy_file(other.path(), file.path());
  EXPECT_EQ(file.find("a"), std::nullopt);
  file.store("b", "2");
  PlanFile again(dir.path(), "conv", device);
  EXPECT_EQ(again.find("a"), std::nullopt);
  EXPECT_EQ(again.find("b"), "2");
}

TEST(PlanFile, DamagedLinesAreIgnored) {
  const TempDir dir;
  const PlanFile named(dir.path(), "conv", device);
  PlanFile(dir.path(), "conv", device).store("a", "1");
  const std::string good = test::read_file(named.path());
  dir.write(named.path().filename().string(), good + "no tab\n\n\tno key\nb\ttwo\ttabs\n" +
                                                  std::string("c\t\0\n", 4) + "d\t4\ne\tcut");
  PlanFile file(dir.path(), "conv", device);
  EXPECT_EQ(file.find("a"), "1");
  EXPECT_EQ(file.find(""), std::nullopt);
  EXPECT_EQ(file.find("b"), std::nullopt);
  EXPECT_EQ(file.find("d"), "4");
  EXPECT_EQ(file.find("e"), std::nullopt);
}

TEST(PlanFile, DamagedFilesAreIgnoredAndReplaced) {
  const TempDir dir;
  const std::string name = PlanFile(dir.path(), "conv", device).path().filename().string();
  for (const std::string& damaged : {std::string(), std::string("adret"), std::string("\n\n"),
                                     std::string(1 << 20, '\xff'), std::string(4096, '\0')}) {
    dir.write(name, damaged);
    PlanFile file(dir.path(), "conv", device);
    EXPECT_EQ(file.find("a"), std::nullopt);
    file.store("a", "1");
    EXPECT_EQ(PlanFile(dir.path(), "conv", device).find("a"), "1");
  }
}

TEST(PlanFile, TextThatWouldBreakTheFileIsNotKept) {
  const TempDir dir;
  PlanFile file(dir.path(), "conv", device);
  file.store("a\tb", "1");
  file.store("c", "1\n2");
  file.store("", "3");
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(PlanFile, AFolderThatCannotBeWrittenOnlyKeepsNothing) {
  const TempDir dir;
  dir.write("file", "not a folder");
  PlanFile file(dir.path() / "file" / "below", "conv", device);
  file.store("a", "1");
  file.flush();
  EXPECT_EQ(file.find("a"), "1");
  EXPECT_EQ(PlanFile(dir.path() / "file" / "below", "conv", device).find("a"), std::nullopt);

  if (geteuid() != 0) {  // root may write everywhere
    std::filesystem::permissions(
        dir.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    PlanFile read_only(dir.path(), "conv", device);
    read_only.store("a", "1");
    EXPECT_EQ(read_only.find("a"), "1");
    std::filesystem::permissions(dir.path(), std::filesystem::perms::owner_all);
    EXPECT_FALSE(std::filesystem::exists(read_only.path()));
  }
}

TEST(PlanFile, WithoutAFolderNothingIsWritten) {
  PlanFile file({}, "conv", device);
  file.store("a", "1");
  EXPECT_EQ(file.find("a"), "1");
  EXPECT_TRUE(file.path().empty());
}

TEST(PlanFile, WritersAtTheSameTimeLoseNothing) {
  const TempDir dir;
  constexpr int writers = 6, choices = 40;
  std::vector<pid_t> children;
  for (int w = 0; w < writers; ++w) {
    children.push_back(fork());
    ASSERT_GE(children.back(), 0);
    if (children.back() == 0) {
      PlanFile file(dir.path(), "conv", device);
      for (int i = 0; i < choices; ++i) {
        file.store(std::to_string(w) + "/" + std::to_string(i), std::to_string(i));
        file.flush();
      }
      _exit(0);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  PlanFile file(dir.path(), "conv", device);
  for (int w = 0; w < writers; ++w) {
    for (int i = 0; i < choices; ++i) {
      EXPECT_EQ(file.find(std::to_string(w) + "/" + std::to_string(i)), std::to_string(i));
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(name.ends_with(".txt") || name.ends_with(".lock")) << name;
  }
}

// A training run of many shapes must not wait for it: measured 1 ms; the bound is for busy
// machines.
TEST(PlanFile, ThousandsOfLinesAreReadQuickly) {
  const TempDir dir;
  {
    PlanFile file(dir.path(), "conv", device);
    for (int i = 0; i < 4000; ++i) {
      file.store("conv2d_forward 256x56x56x" + std::to_string(i) + std::string(100, 'k'),
                 std::string(60, 'v'));
    }
  }
  PlanFile file(dir.path(), "conv", device);
  const auto start = std::chrono::steady_clock::now();
  file.find("none");
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", std::to_string(took.count()));
  EXPECT_LT(took.count(), 50);
}

}  // namespace
}  // namespace adret::cuda
