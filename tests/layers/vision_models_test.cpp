// Models of images: sizes, parameter counts, gradients, copies, precision.
#include <adret/autograd/ops/loss.h>
#include <adret/layers/models/resnet.h>
#include <gtest/gtest.h>

namespace adret {
namespace {

int64_t parameter_count(const Module& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter->value.numel();
  return count;
}

// sum(p.numel() for p in model.parameters()) of torchvision 0.14's models; for CIFAR-10 of the same
// with another conv1 and fc.
TEST(VisionModels, HaveAsManyParametersAsTorchvisions) {
  const ResNetOptions imagenet{.classes = 1000, .stem = Stem::imagenet};
  EXPECT_EQ(parameter_count(resnet18(imagenet)), 11689512);
  EXPECT_EQ(parameter_count(resnet34(imagenet)), 21797672);
  EXPECT_EQ(parameter_count(resnet50(imagenet)), 25557032);
  EXPECT_EQ(parameter_count(resnet18()), 11173962);
}

// What every model must do, on two images of `size`.
template <class Model>
void expect_trains(Model model, int64_t size) {
  SCOPED_TRACE(model.type_name());
  const Tensor x = Tensor::full({2, size, size, 3}, 0.5);
  const Tensor labels = Tensor::from(std::vector<int64_t>{3, 4}, {2});
  const Tensor logits = model(x);
  ASSERT_EQ(logits.shape(), (Shape{2, 10}));
  cross_entropy(logits, labels).backward();
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_TRUE(parameter->value.grad().defined()) << name;
  }
  Model copy = model.clone();
  model.eval();
  copy.eval();
  const Tensor y = model(x);
  EXPECT_EQ(copy(x).to_vector(), y.to_vector());
  model.to(DType::bf16);
  EXPECT_EQ(model.conv1.weight.value.dtype(), DType::bf16);
  EXPECT_EQ(model.bn1.weight.value.dtype(), DType::f32);
  EXPECT_EQ(model.bn1.running_var.dtype(), DType::f32);
}

TEST(VisionModels, TrainAndCanBeCloned) {
  expect_trains(resnet18(), 16);
  expect_trains(resnet18({.stem = Stem::imagenet}), 64);
  expect_trains(ResNet({.blocks = {1, 1, 1, 1}, .bottleneck = true}), 16);
}

}  // namespace
}  // namespace adret
