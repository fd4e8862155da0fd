// Weights that PyTorch wrote give PyTorch's logits, and files of ours are valid for a reader that
// is not. make_golden.py made the files.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/activation.h>
#include <adret/layers/flatten.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/norm.h>
#include <adret/layers/pool.h>
#include <adret/layers/sequential.h>
#include <adret/train/weights.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "tests/support/files.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

const std::filesystem::path golden = source_dir() / "tests/golden";

// The largest difference from PyTorch's logits on PyTorch's input.
double largest_difference(Module& model, const std::string& name) {
  load_weights(model, golden / (name + ".safetensors"));
  model.eval();
  std::map<std::string, Tensor> io;
  for (const auto& [key, tensor] : read_tensors(golden / (name + "_io.safetensors")).tensors) {
    io[key] = tensor;
  }
  const NoGrad no_grad;
  const auto ours = model.call(permute(io.at("input"), {0, 2, 3, 1})).to_vector<float>();
  const auto theirs = io.at("logits").to_vector<float>();
  EXPECT_EQ(ours.size(), theirs.size());
  double largest = 0;
  for (size_t i = 0; i < theirs.size(); ++i) {
    largest = std::max(largest, double(std::abs(ours[i] - theirs[i])));
  }
  return largest;
}

Sequential normalised_network() {
  return Sequential(Conv2d(3, 4, {.kernel = 3, .padding = 1}), BatchNorm2d(4), ReLU(), MaxPool2d(2),
                    Flatten(), Linear(64, 5));
}

// Logits are about 0.1 and sums of up to 400 products in f32.
constexpr double tolerance = 1e-5;

TEST(PyTorchWeights, OfLeNetGivePyTorchsLogits) {
  LeNet model;
  EXPECT_LT(largest_difference(model, "lenet"), tolerance);
}

TEST(PyTorchWeights, OfANormalisedNetworkGivePyTorchsLogits) {
  Sequential model = normalised_network();
  EXPECT_LT(largest_difference(model, "norm"), tolerance);
}

TEST(PyTorchWeights, SavedAgainHoldTheSameTensors) {
  const TempDir dir;
  Sequential model = normalised_network();
  load_weights(model, golden / "norm.safetensors");
  save_weights(model, dir / "again");
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : read_tensors(golden / "norm.safetensors").tensors) {
    before[name] = tensor;
  }
  const TensorFile after = read_tensors(dir / "again");
  EXPECT_EQ(after.tensors.size(), before.size());
  for (const auto& [name, tensor] : after.tensors) {
    ASSERT_TRUE(before.contains(name)) << name;
    EXPECT_EQ(tensor.shape(), before[name].shape()) << name;
    EXPECT_EQ(tensor.dtype(), before[name].dtype()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), before[name].data(), tensor.bytes()), 0) << name;
  }
}

// Standard output of a command; its exit status must be 0.
std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "no pipe";
  std::string text;
  char buffer[256];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, got);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

TEST(PyTorchWeights, SavedByUsAreReadByAnotherReader) {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not installed";
  const TempDir dir;
  Sequential model = normalised_network();
  load_weights(model, golden / "norm.safetensors");
  save_weights(model, dir / "ours", {{"note", "ours"}});
  const std::string reader = fmt::format("python3 -B {}/safetensors_file.py ", golden.string());
  const std::string ours = output_of(reader + (dir / "ours").string());
  // The reader's output for PyTorch's own file, with our metadata.
  std::string theirs = output_of(reader + (golden / "norm.safetensors").string());
  theirs.replace(theirs.find("\"pt\""), 4, "\"pt\", \"note\": \"ours\"");
  EXPECT_EQ(ours, theirs);
  EXPECT_THAT(ours, testing::HasSubstr("1.num_batches_tracked I64 scalar 3\n"));
}

}  // namespace
}  // namespace adret
