// Opening of cuDNN and cuBLASLt: installations that are missing, old, mixed or incomplete.
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret::cuda {
namespace {

using namespace test;

constexpr const char* parts[] = {
    "graph", "ops", "cnn", "engines_precompiled", "engines_runtime_compiled", "heuristic"};

// A folder with libraries under the names that the loader looks for.
class Installation {
 public:
  void put(const std::string& fake, const std::string& name) {
    std::filesystem::copy_file(std::string(ADRET_FAKE_LIBRARIES) + "/" + fake + ".so",
                               folder_ / name, std::filesystem::copy_options::overwrite_existing);
  }
  void put_parts(const std::string& fake) {
    for (const char* part : parts) put(fake, part_name(part));
  }
  static std::string part_name(const std::string& part) { return "libcudnn_" + part + ".so.9"; }
  std::string file(const std::string& name = "libcudnn.so.9") const { return folder_ / name; }
  void remove(const std::string& name) { std::filesystem::remove(folder_ / name); }
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
  std::string problem() const {
    return thrown<DeviceError>([this] { return open_cudnn(file()).version; });
  }

 private:
  TempDir folder_;
};

TEST(OpenCudnn, TakesAWholeInstallation) {
  Installation there;
  there.put("cudnn_9_19", "libcudnn.so.9");
  there.put_parts("part_9_19");
  const Cudnn cudnn = open_cudnn(there.file());
  EXPECT_EQ(cudnn.version, 91900u);
  EXPECT_EQ(cudnn.path, there.file());
  EXPECT_NE(cudnn.cudnnBackendExecute, nullptr);
}

TEST(OpenCudnn, NotesAnotherMinorVersionWithBothPaths) {
  Installation there;
  there.put("cudnn_9_18", "libcudnn.so.9");
  there.put_parts("part_9_18");
  const LibraryVersion found = version_of(open_cudnn(there.file()));
  EXPECT_EQ(to_string({.name = "cuDNN",
                       .version = found.version,
                       .path = found.path,
                       .compiled_version = "9.19.0",
                       .compiled_path = "/there/libcudnn.so"}),
            "cuDNN 9.18.0 at " + there.file() + " (compiled against 9.19.0 at /there/libcudnn.so)");
  EXPECT_EQ(to_string({.name = "cuDNN",
                       .version = "9.19.0",
                       .path = "/here/libcudnn.so.9",
                       .compiled_version = "9.19.0",
                       .compiled_path = "/there/libcudnn.so"}),
            "cuDNN 9.19.0 at /here/libcudnn.so.9");
}

TEST(OpenCudnn, SaysThatThereIsNone) {
  const Installation there;
  EXPECT_THAT(there.problem(),
              testing::AllOf(testing::HasSubstr("[cuda] cannot open cuDNN 9, version 9.14.0 or "
                                                "later (this was compiled against 9."),
                             testing::HasSubstr(there.file()),
                             testing::HasSubstr("Device::cpu() works without"),
                             testing::Not(testing::HasSubstr("found"))));
}

TEST(OpenCudnn, NamesAnotherMajorVersionThatIsThere) {
  Installation there;
  there.put("cudnn_8_9", "libcudnn.so.8");
  there.put("cudnn_10_0", "libcudnn.so.10");
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "; found cuDNN 8.9.7 at " + there.file("libcudnn.so.8") +
                          ", cuDNN 10.0.0 at " + there.file("libcudnn.so.10"),
                      there.problem());
}

TEST(OpenCudnn, RefusesAnOldOneAndAnotherMajorUnderItsName) {
  for (const auto& [fake, version] :
       {std::pair("cudnn_9_13", "9.13.0"), {"cudnn_10_0", "10.0.0"}}) {
    Installation there;
    there.put(fake, "libcudnn.so.9");
    there.put_parts("part_9_19");
    EXPECT_PRED_FORMAT2(testing::IsSubstring,
                        std::string("[cuda] found cuDNN ") + version + " at " + there.file() +
                            ", wanted cuDNN 9, version 9.14.0 or later",
                        there.problem());
  }
}

TEST(OpenCudnn, RefusesOneWithoutAFunction) {
  Installation there;
  there.put("cudnn_bare", "libcudnn.so.9");
  there.put_parts("part_9_19");
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "[cuda] cuDNN at " + there.file() + " has no function cudnn",
                      there.problem());
}

TEST(OpenCudnn, NamesThePartThatIsMissingEmptyOrOfAnotherVersion) {
  for (const std::string part : parts) {
    Installation there;
    there.put("cudnn_9_19", "libcudnn.so.9");
    there.put_parts("part_9_19");
    const std::string name = Installation::part_name(part);
    const std::string start = "[cuda] cuDNN 9.19.0 at " + there.file() +
                              " is not installed as a whole: its part " + there.file(name);
    there.remove(name);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, start + " cannot be opened: ", there.problem());
    there.write(name, "");
    EXPECT_PRED_FORMAT2(testing::IsSubstring, start + " cannot be opened: ", there.problem());
    there.remove(name);
    there.put("part_9_18", name);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, start + " is of version 9.18.0; install",
                        there.problem());
  }
}

TEST(OpenCudnn, AsksThePartItself) {
  Installation there;
  there.put("cudnn_9_19", "libcudnn.so.9");
  there.put_parts("part_9_19");
  there.put("part_failing", Installation::part_name("ops"));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "libcudnn_ops.so.9 is of another version",
                      there.problem());
}

TEST(OpenCudnn, ReadsAPartsVersionFromTheNameOfItsFile) {
  Installation there;
  there.put("cudnn_9_19", "libcudnn.so.9");
  there.put_parts("part_9_19");
  const std::string link = Installation::part_name("heuristic");
  there.remove(link);
  there.put("part_9_19", link + ".17.1");
  std::filesystem::create_symlink(link + ".17.1", there.file(link));
  EXPECT_PRED_FORMAT2(testing::IsSubstring, link + " is of version 9.17.1", there.problem());
}

TEST(OpenCublas, TakesTheMajorVersionCompiledAgainstOnly) {
  Installation there;
  there.put("cublas_13_1", "libcublasLt.so.13");
  EXPECT_EQ(open_cublas(there.file("libcublasLt.so.13")).version, 130100u);
  there.put("cublas_12_4", "old.so");
  expect_error<DeviceError>([&] { return open_cublas(there.file("old.so")).version; },
                            "[cuda] found cuBLASLt 12.4.0 at " + there.file("old.so"));
  expect_error<DeviceError>([&] { return open_cublas(there.file("gone.so")).version; },
                            "[cuda] cannot open cuBLASLt 13 (this was compiled against 13.");
}

// The ones that this was compiled against, which a build without a GPU has too.
TEST(Libraries, AreThoseCompiledAgainst) {
  EXPECT_EQ(cudnn().version / 10000, size_t(CUDNN_MAJOR));
  EXPECT_EQ(cublas().version / 10000, size_t(CUBLAS_VER_MAJOR));
  EXPECT_EQ(path_of_library("libcudnn_heuristic.so.9"),
            std::filesystem::path(cudnn().path).parent_path() / "libcudnn_heuristic.so.9");
  EXPECT_EQ(path_of_library("libnothing.so.1"), "");
}

}  // namespace
}  // namespace adret::cuda
