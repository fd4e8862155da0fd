// Saving and loading a model's weights: names, layouts, differences, ties.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/layers/conv.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/optim/sgd.h>
#include <adret/train/weights.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace adret {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;

struct Net : Layer<Net> {
  Conv2d& conv = add("conv", Conv2d(2, 3, {.kernel = 2}));
  BatchNorm2d& norm = add("norm", BatchNorm2d(3));
  Tensor forward(const Tensor& x) { return norm(conv(x)); }
};

// Two linear layers that share one weight.
struct Tied : Layer<Tied> {
  Linear& embed = add("embed", Linear(2, 2, {.bias = false}));
  Parameter& head = parameter("head", embed.weight);
  Tensor forward(const Tensor& x) { return embed(x) * head.value; }
};

std::vector<std::string> names_in(const std::filesystem::path& path) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : read_tensors(path).tensors) names.push_back(entry.name);
  return names;
}

class WeightsTest : public testing::Test {
 protected:
  TempDir dir_;
};

TEST_F(WeightsTest, NamesAndLayoutsArePyTorchs) {
  Net net;
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  {
    const NoGrad no_grad;
    copy_(net.conv.weight.value, Tensor::from(values, {3, 2, 2, 2}));  // (O, KH, KW, I)
  }
  save_weights(net, dir_ / "file");
  const TensorFile file = read_tensors(dir_ / "file");
  EXPECT_THAT(names_in(dir_ / "file"),
              testing::UnorderedElementsAre("conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                            "norm.running_mean", "norm.running_var",
                                            "norm.num_batches_tracked"));
  EXPECT_EQ(file.metadata, (Metadata{{"format", "pt"}}));
  for (const auto& [name, tensor] : file.tensors) {
    EXPECT_EQ(tensor.dtype(), name == "norm.num_batches_tracked" ? DType::i64 : DType::f32) << name;
    if (name != "conv.weight") continue;
    EXPECT_EQ(tensor.shape(), Shape({3, 2, 2, 2}));  // (O, I, KH, KW)
    // Output channel 0: of elements (kh, kw, i) 0..7, input channel 0 has the even ones.
    const auto turned = tensor.to_vector<float>();
    EXPECT_THAT(std::vector<float>(turned.begin(), turned.begin() + 8),
                ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  }
}

TEST_F(WeightsTest, AModelLoadsWhatItSavedBitForBit) {
  Net first, second;
  {
    const NoGrad no_grad;
    fill_(first.norm.running_mean, 3);
    fill_(first.norm.num_batches_tracked, 7);
  }
  save_weights(first, dir_ / "file");
  EXPECT_TRUE(load_weights(second, dir_ / "file").empty());
  EXPECT_EQ(second.conv.weight.value.to_vector<float>(),
            first.conv.weight.value.to_vector<float>());
  EXPECT_EQ(second.norm.running_mean.to_vector<float>(), std::vector<float>(3, 3));
  EXPECT_EQ(second.norm.num_batches_tracked.item<int64_t>(), 7);
}

TEST_F(WeightsTest, NarrowModelsAreSavedAsTheirF32MastersAndLoadBack) {
  Linear wide(3, 2), narrow(3, 2), other(3, 2);
  const auto exact = narrow.weight.value.to_vector<float>();
  narrow.to(DType::bf16);
  const auto rounded = narrow.weight.value.to(DType::f32).to_vector<float>();
  EXPECT_NE(rounded, exact);
  save_weights(narrow, dir_ / "file");
  for (const auto& entry : read_tensors(dir_ / "file").tensors)
    EXPECT_EQ(entry.tensor.dtype(), DType::f32);
  load_weights(wide, dir_ / "file");
  EXPECT_EQ(wide.weight.value.to_vector<float>(), exact);

  other.to(DType::bf16);
  const Sgd optimizer(other, {.lr = 1});
  load_weights(other, dir_ / "file");
  EXPECT_EQ(other.weight.value.dtype(), DType::bf16);
  EXPECT_EQ(other.weight.value.to(DType::f32).to_vector<float>(), rounded);
  EXPECT_EQ(other.weight.master().to_vector<float>(), exact);
}

TEST_F(WeightsTest, AValueWithoutAMasterIsSavedItself) {
  Linear narrow(3, 2);
  narrow.to(DType::bf16);
  {
    const NoGrad no_grad;
    fill_(narrow.weight.value, 3);
  }
  save_weights(narrow, dir_ / "file");
  Linear wide(3, 2);
  load_weights(wide, dir_ / "file");
  EXPECT_EQ(wide.weight.value.to_vector<float>(), std::vector<float>(6, 3));
}

// Weights of Net with a counter missing, a stranger and a wrong shape.
void write_misfit(const std::filesystem::path& path) {
  write_tensors(path, {{"conv.weight", Tensor::ones({3, 2, 3, 3})},
                       {"conv.bias", Tensor::full({3}, 5)},
                       {"norm.weight", Tensor::ones({3})},
                       {"norm.bias", Tensor::ones({3})},
                       {"norm.running_mean", Tensor::ones({3})},
                       {"norm.running_var", Tensor::ones({3}, {.dtype = DType::i32})},
                       {"fc.weight", Tensor::ones({3})}});
}

TEST_F(WeightsTest, StrictLoadingListsAllDifferencesAndChangesNothing) {
  Net net;
  const auto bias = net.conv.bias.value.to_vector<float>();
  write_misfit(dir_ / "file");
  EXPECT_EQ(thrown<CheckpointError>([&] { load_weights(net, dir_ / "file"); }),
            "[load_weights] " + (dir_ / "file").string() +
                " does not fit the model Net:\n"
                "  missing in the file: norm.num_batches_tracked\n"
                "  unknown to the model: fc.weight\n"
                "  different: conv.weight is (3, 2, 3, 3) f32 in the file, (3, 2, 2, 2) f32 in the "
                "model, norm.running_var is (3,) i32 in the file, (3,) f32 in the model\n"
                "Load with strict = false to take what fits");
  EXPECT_EQ(net.conv.bias.value.to_vector<float>(), bias);
}

TEST_F(WeightsTest, LenientLoadingTakesWhatFitsAndReportsTheSame) {
  Net net;
  const auto weight = net.conv.weight.value.to_vector<float>();
  write_misfit(dir_ / "file");
  const WeightsMismatch mismatch = load_weights(net, dir_ / "file", {.strict = false});
  EXPECT_THAT(mismatch.missing, ElementsAre("norm.num_batches_tracked"));
  EXPECT_THAT(mismatch.unexpected, ElementsAre("fc.weight"));
  EXPECT_EQ(mismatch.different.size(), 2);
  EXPECT_EQ(net.conv.bias.value.to_vector<float>(), std::vector<float>(3, 5));
  EXPECT_EQ(net.conv.weight.value.to_vector<float>(), weight);
}

TEST_F(WeightsTest, TiedWeightsAreStoredOnceAndStayTied) {
  Tied first, second;
  save_weights(first, dir_ / "file");
  EXPECT_THAT(names_in(dir_ / "file"), ElementsAre("head"));  // a module's own come first
  load_weights(second, dir_ / "file");
  EXPECT_TRUE(second.head.value.is_same(second.embed.weight.value));
  EXPECT_EQ(second.head.value.to_vector<float>(), first.embed.weight.value.to_vector<float>());
  // A step changes both, as they are one: d/dw of sum(x w^T * w) is not 0.
  Sgd optimizer(second, {.lr = 0.1});
  sum(second(Tensor::ones({2, 2}))).backward();
  optimizer.step();
  EXPECT_NE(second.head.value.to_vector<float>(), first.embed.weight.value.to_vector<float>());
  EXPECT_EQ(second.head.value.to_vector<float>(), second.embed.weight.value.to_vector<float>());
  EXPECT_TRUE(second.head.value.is_same(second.embed.weight.value));
}

TEST_F(WeightsTest, AnyNameOfATiedWeightWillDo) {
  Tied net;
  write_tensors(dir_ / "other", {{"head", Tensor::full({2, 2}, 4)}});
  EXPECT_TRUE(load_weights(net, dir_ / "other").empty());
  EXPECT_EQ(net.embed.weight.value.to_vector<float>(), std::vector<float>(4, 4));
  write_tensors(dir_ / "both",
                {{"head", Tensor::full({2, 2}, 4)}, {"embed.weight", Tensor::full({2, 2}, 4)}});
  EXPECT_TRUE(load_weights(net, dir_ / "both").empty());
  write_tensors(dir_ / "apart",
                {{"head", Tensor::full({2, 2}, 5)}, {"embed.weight", Tensor::full({2, 2}, 4)}});
  EXPECT_THAT(
      thrown<CheckpointError>([&] { load_weights(net, dir_ / "apart"); }),
      HasSubstr("head and embed.weight are one tensor in the model, but differ in the file"));
}

TEST_F(WeightsTest, LoadingKeepsTheOptimizersArena) {
  Linear layer(2, 2);
  save_weights(layer, dir_ / "file");
  const auto saved = layer.weight.value.to_vector<float>();
  Sgd optimizer(layer, {.lr = 0.1});
  {
    const NoGrad no_grad;
    fill_(layer.weight.value, 9);
  }
  const void* place = layer.weight.value.data();
  load_weights(layer, dir_ / "file");
  EXPECT_EQ(layer.weight.value.data(), place);
  EXPECT_EQ(layer.weight.value.to_vector<float>(), saved);
  EXPECT_TRUE(layer.weight.requires_grad());
}

}  // namespace
}  // namespace adret
