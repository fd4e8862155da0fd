// PyTorch's weights of layers of sequences and volumes give PyTorch's results, and are written as
// they were read. make_volume.py made the files.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/conv.h>
#include <adret/train/weights.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/files.h"
#include "tests/support/golden.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

struct Layers : Layer<Layers> {
  Conv1d& conv1 = add("conv1", Conv1d(4, 2, {.kernel = 4, .padding = Pad::same, .groups = 2}));
  Conv3d& conv3 = add(
      "conv3",
      Conv3d(2, 4, {.kernel = {2, 3, 1}, .stride = {1, 2, 1}, .padding = {1, 1, 0}, .groups = 2}));
  ConvTranspose1d& up1 = add(
      "up1", ConvTranspose1d(
                 4, 2, {.kernel = 3, .stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  ConvTranspose2d& up2 = add("up2", ConvTranspose2d(3, 2, {.kernel = {3, 2}, .stride = 2}));
  ConvTranspose3d& up3 =
      add("up3",
          ConvTranspose3d(
              4, 2, {.kernel = {2, 3, 1}, .stride = {1, 2, 2}, .padding = {0, 1, 0}, .groups = 2}));
};

// (N, C, ...) as (N, ..., C).
Tensor channels_last(const Tensor& x) {
  std::vector<int> order(size_t(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return permute(x, order);
}

TEST(PyTorchWeights, OfSequencesAndVolumesGivePyTorchsResults) {
  Layers layers;
  load_weights(layers, source_dir() / "tests/golden/volume.safetensors");
  const auto io = read_golden("volume_io.safetensors");
  const NoGrad no_grad;
  const auto expect = [&](const std::string& name, auto& layer) {
    SCOPED_TRACE(name);
    const Tensor y = channels_last(io.at(name + ".y"));
    expect_values(layer(channels_last(io.at(name + ".x"))), y.shape(),
                  y.to(DType::f64).to_vector<double>(), 1e-5);  // sums of a dozen products in f32
  };
  expect("conv1", layers.conv1);
  expect("conv3", layers.conv3);
  expect("up1", layers.up1);
  expect("up2", layers.up2);
  expect("up3", layers.up3);
}

TEST(PyTorchWeights, OfSequencesAndVolumesAreWrittenAsTheyWereRead) {
  const TempDir dir;
  Layers layers;
  load_weights(layers, source_dir() / "tests/golden/volume.safetensors");
  save_weights(layers, dir / "again");
  const auto before = read_golden("volume.safetensors");
  const TensorFile after = read_tensors(dir / "again");
  EXPECT_EQ(after.tensors.size(), before.size());
  for (const auto& [name, tensor] : after.tensors) {
    ASSERT_TRUE(before.contains(name)) << name;
    EXPECT_EQ(tensor.shape(), before.at(name).shape()) << name;
    EXPECT_EQ(tensor.to_vector(), before.at(name).to_vector()) << name;
  }
}

}  // namespace
}  // namespace adret
