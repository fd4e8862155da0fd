// The image models against torchvision's: names, shapes, sizes, logits of its weights, and the
// losses of training. vision_golden.py made vision.json, with the same hashed weights and images.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/loss.h>
#include <adret/layers/models/densenet.h>
#include <adret/layers/models/mobilenet_v2.h>
#include <adret/layers/models/resnet.h>
#include <adret/layers/models/vgg.h>
#include <adret/layers/models/wide_resnet.h>
#include <adret/optim/sgd.h>
#include <adret/train/weights.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/hashed.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;  // kernels take ten times as long
#else
constexpr bool is_sanitized = false;
#endif

const nlohmann::json& golden() {
  static const nlohmann::json file =
      nlohmann::json::parse(read_file(source_dir() / "tests/golden/vision.json"));
  return file;
}

template <class Model>
std::unique_ptr<Module> own(Model model) {
  return std::make_unique<Model>(std::move(model));
}

std::unique_ptr<Module> make(const std::string& name) {
  const ResNetOptions imagenet{.classes = 1000, .stem = Stem::imagenet};
  if (name == "resnet18") return own(resnet18(imagenet));
  if (name == "resnet34") return own(resnet34(imagenet));
  if (name == "resnet50") return own(resnet50(imagenet));
  if (name == "vgg11") return own(vgg11({.classes = 1000, .head = Stem::imagenet}));
  if (name == "mobilenet_v2") return own(MobileNetV2({.classes = 1000, .stem = Stem::imagenet}));
  if (name == "mobilenet_v2_0.5") {
    return own(MobileNetV2({.classes = 1000, .width = 0.5, .stem = Stem::imagenet}));
  }
  const DenseNetOptions dense{.classes = 1000, .stem = Stem::imagenet};
  if (name == "densenet121") return own(densenet121(dense));
  if (name == "densenet169") return own(densenet169(dense));
  if (name == "densenet201") return own(densenet201(dense));
  if (name == "cifar_densenet121") return own(densenet121());
  if (name == "cifar_densenet_small") {
    return own(DenseNet({2, 3, 4, 2}, {.growth = 12, .bn_size = 3, .channels = 24}));
  }
  if (name == "cifar_resnet18") return own(resnet18());
  if (name == "cifar_vgg11") return own(vgg11());
  if (name == "cifar_vgg11_bn") return own(vgg11({.batch_norm = true}));
  if (name == "cifar_mobilenet_v2") return own(MobileNetV2());
  if (name == "cifar_wide_resnet_16_2") return own(WideResNet({.depth = 16, .width = 2}));
  return own(WideResNet({.depth = 28, .width = 10}));
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

// PyTorch's state_dict, the entries whose names begin with `prefix`.
Shapes state_dict(const std::string& name, const std::string& prefix = "") {
  Shapes shapes;
  for (const auto& [key, sizes] : golden()["models"][name]["tensors"].items()) {
    if (key.starts_with(prefix)) shapes[key] = sizes.get<std::vector<int64_t>>();
  }
  return shapes;
}

// The same of ours, as it would be written to a file.
Shapes state_dict(const Module& model, const std::string& prefix = "") {
  Shapes shapes;
  const auto put = [&](const std::string& key, const Shape& shape, FileLayout layout) {
    std::vector<int64_t> sizes(shape.begin(), shape.end());
    if (layout == FileLayout::conv_weight) sizes = {sizes[0], sizes[3], sizes[1], sizes[2]};
    if (key.starts_with(prefix)) shapes[key] = sizes;
  };
  for (const auto& [key, parameter] : model.named_parameters()) {
    put(key, parameter->value.shape(), parameter->layout);
  }
  for (const auto& [key, tensor] : model.named_buffers())
    put(key, tensor.shape(), FileLayout::same);
  return shapes;
}

int64_t parameter_count(const Module& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter->value.numel();
  return count;
}

TEST(VisionModels, HaveTorchvisionsNamesShapesAndCounts) {
  for (const char* name :
       {"resnet18", "resnet34", "resnet50", "vgg11", "mobilenet_v2", "mobilenet_v2_0.5",
        "densenet121", "densenet169", "densenet201", "cifar_densenet121", "cifar_densenet_small",
        "cifar_resnet18", "cifar_vgg11", "cifar_vgg11_bn", "cifar_mobilenet_v2",
        "cifar_wide_resnet_16_2", "cifar_wide_resnet_28_10"}) {
    if (is_sanitized && std::string(name) == "vgg11") continue;  // half a gigabyte
    SCOPED_TRACE(name);
    const auto model = make(name);
    EXPECT_EQ(parameter_count(*model), golden()["models"][name]["parameters"]);
    EXPECT_EQ(state_dict(*model), state_dict(name));
    if (std::string(name) == "vgg11") {
      expect_error<ShapeError>(
          [&] {
            return model->call(Tensor::zeros({1, 64, 32, 3}));
          },
          "[Vgg] imagenet's head takes images whose sides are multiples of "
          "224, these have features of 2x1; resize them, or choose .head");
    }
  }
}

// Their classifiers are vgg11's, and too large to be made again.
TEST(VisionModels, OfVggHaveTorchvisionsFeatures) {
  EXPECT_EQ(state_dict(vgg16(), "features."), state_dict("vgg16", "features."));
  EXPECT_EQ(state_dict(vgg11({.batch_norm = true}), "features."),
            state_dict("vgg11_bn", "features."));
  EXPECT_EQ(state_dict("vgg16", "classifier."), state_dict("vgg11", "classifier."));
}

// Writes hashed weights under PyTorch's names and in its layouts, and loads them.
void load_hashed(Module& model, const std::string& name) {
  const TempDir dir;
  std::vector<NamedTensor> tensors;
  for (const auto& [key, sizes] : state_dict(name)) {
    tensors.push_back({key, hashed_weight(key, Shape(std::span(sizes)))});
  }
  write_tensors(dir / "pytorch", tensors);
  load_weights(model, dir / "pytorch");
}

// Logits are up to about 0.5, from sums of thousands of products in f32.
TEST(VisionModels, WithPyTorchsWeightsGivePyTorchsLogits) {
  for (const char* name : {"resnet18", "resnet50", "cifar_resnet18", "mobilenet_v2", "densenet121",
                           "cifar_densenet_small", "cifar_vgg11", "cifar_vgg11_bn",
                           "cifar_mobilenet_v2", "cifar_wide_resnet_16_2"}) {
    SCOPED_TRACE(name);
    const auto model = make(name);
    load_hashed(*model, name);
    model->eval();
    const NoGrad no_grad;
    const Tensor images = hashed_images("images", 2, golden()["models"][name]["size"]);
    const std::vector<float> ours = model->call(images).to_vector<float>();
    const auto& theirs = golden()["models"][name]["logits"];  // the first 20
    ASSERT_GE(ours.size(), theirs.size());
    for (size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_NEAR(ours[i], theirs[i].get<double>(), 1e-4) << "logit " << i;
    }
  }
}

// Losses of the first `steps` steps of the CIFAR ResNet-18.
std::vector<double> train(DType dtype, int steps) {
  const auto& training = golden()["training"];
  ResNet model = resnet18();
  load_hashed(model, "cifar_resnet18");
  model.to(dtype);
  Sgd optimizer(model, {.lr = training["lr"],
                        .momentum = training["momentum"],
                        .weight_decay = training["weight_decay"]});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const std::string number = std::to_string(step);
    const Tensor logits = model(hashed_images("images " + number, training["batch"], 32));
    const Tensor loss = cross_entropy(logits, hashed_labels("labels " + number, training["batch"]));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(dtype == DType::f64 ? loss.item<double>() : loss.item<float>());
  }
  return losses;
}

TEST(VisionModels, TrainWithPyTorchsLossesInF64) {
  const auto& theirs = golden()["training"]["losses"];
  const auto ours = train(DType::f64, is_sanitized ? 2 : 20);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i].get<double>(), 1e-9) << "step " << i;
  }
}

// PyTorch's own f32 losses differ by 1e-3 from its f64 ones after a few steps.
TEST(VisionModels, TrainWithPyTorchsFirstLossesInF32) {
  const auto& theirs = golden()["training"]["losses"];
  const auto ours = train(DType::f32, 2);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i].get<double>(), 1e-4) << "step " << i;
  }
}

}  // namespace
}  // namespace adret
