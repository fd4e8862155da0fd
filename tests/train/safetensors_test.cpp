// The safetensors format: round trips, and every lie a header can tell.
#include <adret/core/error.h>
#include <adret/train/safetensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

// A file by the format's text: the header's length in 8 little-endian bytes, the header, the data.
std::string file_of(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string bytes;
  for (int i = 0; i < 8; ++i, length >>= 8) bytes += char(length & 0xff);
  return bytes + header + data;
}

class SafetensorsTest : public testing::Test {
 protected:
  std::string error(const std::string& content) const {
    return thrown<CheckpointError>([&] { read_tensors(dir_.write("file", content)); });
  }
  std::string header_error(const std::string& header, size_t data_bytes) const {
    return error(file_of(header, std::string(data_bytes, '\0')));
  }
  TempDir dir_;
};

TEST_F(SafetensorsTest, AFileWrittenByHandIsRead) {
  // 1.5f = 0x3fc00000, -2.0f = 0xc0000000 (IEEE 754), little-endian.
  const TensorFile file = read_tensors(dir_.write(
      "file",
      file_of(
          R"({"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]},)"
          R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )",
          std::string("\0\0\xc0\x3f\0\0\0\xc0\x07", 9))));
  ASSERT_EQ(file.tensors.size(), 2);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.tensors[0].tensor.shape(), Shape({2, 1}));
  EXPECT_EQ(file.tensors[0].tensor.to_vector<float>(), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(file.tensors[1].tensor.shape(), Shape());
  EXPECT_EQ(file.tensors[1].tensor.item<uint8_t>(), 7);
  EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}}));
}

TEST_F(SafetensorsTest, EveryDTypeComesBack) {
  std::vector<NamedTensor> tensors;
  for (const DType dtype : {DType::u8, DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32,
                            DType::i64, DType::boolean}) {
    tensors.push_back({std::string("x/") + name(dtype), Tensor::full({3, 2}, 1, {.dtype = dtype})});
  }
  tensors.push_back({"empty", Tensor::zeros({0, 4})});
  tensors.push_back({"a \"quoted\" \xc3\xa4", Tensor::full({}, 2.5)});
  write_tensors(dir_ / "file", tensors, {{"k", "v"}});
  const TensorFile file = read_tensors(dir_ / "file");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  EXPECT_EQ(file.metadata, (Metadata{{"k", "v"}}));
  for (const auto& [name, tensor] : tensors) {
    const auto found = std::ranges::find(file.tensors, name, &NamedTensor::name);
    ASSERT_NE(found, file.tensors.end()) << name;
    EXPECT_EQ(found->tensor.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(found->tensor.shape(), tensor.shape()) << name;
    if (tensor.bytes() == 0) continue;
    EXPECT_EQ(std::memcmp(found->tensor.data(), tensor.data(), tensor.bytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, MissingFilesAndFoldersAreNamed) {
  EXPECT_EQ(thrown<CheckpointError>([&] { read_tensors(dir_ / "none"); }),
            "[read_tensors] " + (dir_ / "none").string() + ": there is no such file");
  EXPECT_THAT(thrown<CheckpointError>([&] { read_tensors(dir_.path()); }),
              HasSubstr("this is not a file"));
}

TEST_F(SafetensorsTest, OtherFilesAreCalledByTheirKindWithWhatToDo) {
  const std::string zip = error("PK\x03\x04" + std::string(100, 'x'));
  EXPECT_THAT(zip, AllOf(HasSubstr("expected a safetensors file, found a zip archive"),
                         HasSubstr("if it is a PyTorch checkpoint, convert it in Python")));
  EXPECT_THAT(error("\x80\x02\x8a\x0al\xfc\x9c" + std::string(100, 'x')),
              AllOf(HasSubstr("found a Python pickle"), HasSubstr("safetensors.torch.save_file")));
  EXPECT_THAT(error("\x89HDF\r\n\x1a\n" + std::string(100, 'x')), HasSubstr("found an HDF5 file"));
  EXPECT_THAT(error(""), HasSubstr("found empty (0 bytes; a header alone takes 10)"));
  EXPECT_THAT(error("abc"), HasSubstr("begins with the bytes 61 62 63 (3 bytes"));
  EXPECT_THAT(error(file_of("[]", "")), HasSubstr("its header does not begin with '{'"));
}

TEST_F(SafetensorsTest, AHugeHeaderLengthIsRefusedBeforeItIsAllocated) {
  EXPECT_THAT(error(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)),
              HasSubstr("promise a header of 9223372036854775807 bytes, the file has 10"));
  EXPECT_THAT(error(std::string("\3\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("promise a header of 3 bytes"));
}

TEST_F(SafetensorsTest, ABrokenHeaderIsTold) {
  EXPECT_THAT(header_error("{\"a\":", 0), HasSubstr("the header is not valid JSON"));
  EXPECT_THAT(header_error(R"({"a":[1]})", 0),
              HasSubstr("tensor \"a\": the header gives no dtype"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1),
              HasSubstr("tensor \"a\": the header gives no shape"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
              HasSubstr("tensor \"a\": shape [-1] holds something else than sizes"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("tensor \"a\": dtype F8_E4M3 has no counterpart here"));
  EXPECT_THAT(
      header_error(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1),
      HasSubstr("tensor \"a\": 7 dimensions, at most 6"));
  EXPECT_THAT(header_error(R"({"__metadata__":{"a":1}})", 0),
              HasSubstr("the metadata \"a\" is not a string"));
}

TEST_F(SafetensorsTest, NamesThatComeTwiceAreRefused) {
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                           2),
              HasSubstr("the name \"a\" comes twice"));
  EXPECT_THAT(
      header_error(R"({"a":{"dtype":"U8","shape":[1],"shape":[2],"data_offsets":[0,1]}})", 1),
      HasSubstr("the name \"shape\" comes twice"));
  EXPECT_THAT(thrown<CheckpointError>([&] {
                write_tensors(dir_ / "x", {{"a", Tensor::zeros({1})}, {"a", Tensor::zeros({1})}});
              }),
              HasSubstr("the name \"a\" comes twice"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "x"));
}

TEST_F(SafetensorsTest, PlacesThatLieAreRefusedWithTheTensorsName) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_THAT(
      header_error(two("[0,3]", "[4,8]"), 8),
      HasSubstr("tensor \"a\": shape [4] U8 does not take the 3 bytes of data_offsets 0..3"));
  EXPECT_THAT(header_error(two("[0,4]", "[8,4]"), 8),
              HasSubstr("tensor \"b\": data_offsets [8,4] run backward"));
  EXPECT_THAT(header_error(two("[0,4]", "[2,6]"), 8),
              HasSubstr("tensor \"b\": its bytes 2..6 overlap those of \"a\" (0..4)"));
  EXPECT_THAT(header_error(two("[0,4]", "[0,4]"), 4), HasSubstr("overlap those of"));
  EXPECT_THAT(header_error(two("[0,4]", "[5,9]"), 9),
              HasSubstr("tensor \"b\": there is a hole before its bytes 5..9"));
  EXPECT_THAT(header_error(two("[0,4]", "[6,10]"), 9),
              HasSubstr("tensor \"b\": its bytes 6..10 pass the end of the 9 bytes of data"));
  EXPECT_THAT(header_error(two("[0,4]", "[4,8]"), 9),
              HasSubstr("1 bytes follow the last tensor \"b\""));
  EXPECT_THAT(header_error(two("[0,4]", "[4]"), 9), HasSubstr("are not two"));
}

TEST_F(SafetensorsTest, AShapeWhoseSizeOverflowsIsRefused) {
  // 2^33 * 2^31 * 4 bytes is 2^66, which is 0 in 64 bits: as many as the offsets say.
  EXPECT_THAT(
      header_error(R"({"a":{"dtype":"F32","shape":[8589934592,2147483648],"data_offsets":[0,0]}})",
                   0),
      HasSubstr("tensor \"a\": shape [8589934592,2147483648] F32 does not take the 0 bytes"));
}

TEST_F(SafetensorsTest, ABooleanByteOf2IsRefused) {
  EXPECT_THAT(error(file_of(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\2")),
              HasSubstr("tensor \"a\": a BOOL is neither 0 nor 1"));
}

const std::vector<NamedTensor>& large() {
  static const std::vector<NamedTensor> tensors = {{"large", Tensor::ones({1 << 18})}};
  return tensors;
}

size_t files_in(const std::filesystem::path& folder) {
  return size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_F(SafetensorsTest, AFullDiskLeavesTheOldFileAndNoOther) {
  write_tensors(dir_ / "file", {{"old", Tensor::zeros({2})}});
  // A limit on the size of files stands for the full disk: the write fails half-way.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = thrown<CheckpointError>([&] { write_tensors(dir_ / "file", large()); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, AllOf(HasSubstr("[save] cannot write"), HasSubstr("File too large"),
                          HasSubstr("what was at " + (dir_ / "file").string() + " is unchanged")));
  EXPECT_EQ(read_tensors(dir_ / "file").tensors.at(0).name, "old");
  EXPECT_EQ(files_in(dir_.path()), 1);
}

TEST_F(SafetensorsTest, AKilledProcessLeavesACompleteFile) {
  large();  // the child must not start threads or allocate its tensors
  write_tensors(dir_ / "file", large());
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) write_tensors(dir_ / "file", large());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const TensorFile file = read_tensors(dir_ / "file");
    ASSERT_EQ(file.tensors.at(0).name, "large");
    ASSERT_EQ(file.tensors.at(0).tensor.numel(), 1 << 18);
  }
}

TEST_F(SafetensorsTest, AFolderThatIsNotThereAndAPathThatIsNoFileAreTold) {
  EXPECT_THAT(thrown<CheckpointError>([&] { write_tensors(dir_ / "none/file", large()); }),
              AllOf(HasSubstr("cannot create"), HasSubstr("No such file or directory")));
  EXPECT_THAT(thrown<CheckpointError>([&] { write_tensors(dir_.path(), large()); }),
              HasSubstr("is not a file"));
}

}  // namespace
}  // namespace adret
