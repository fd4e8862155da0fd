// MNIST's models and the summary: sizes, names, costs, and that a summary disturbs nothing.
#include <adret/autograd/step_trace.h>
#include <adret/core/decorators/dry_run.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/layers/activation.h>
#include <adret/layers/flatten.h>
#include <adret/layers/models/lenet.h>
#include <adret/layers/models/mlp.h>
#include <adret/layers/models/mnist_cnn.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>
#include <adret/layers/summary.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

int64_t parameter_count(const Module& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter->value.numel();
  return count;
}

// sum(p.numel() for p in model.parameters()) of the same networks in PyTorch.
TEST(Models, HaveAsManyParametersAsPyTorchs) {
  EXPECT_EQ(parameter_count(LeNet()), 61706);
  EXPECT_EQ(parameter_count(Mlp()), 203530);
  EXPECT_EQ(parameter_count(MnistCnn()), 1199882);
}

template <class Model>
void expect_logits() {
  Model model;
  EXPECT_EQ(model(Tensor::zeros({3, 28, 28, 1})).shape(), (Shape{3, 10}));
  EXPECT_EQ(model.clone().parameters().size(), model.parameters().size());
}

TEST(Models, GiveTenLogitsAndCanBeCloned) {
  expect_logits<LeNet>();
  expect_logits<Mlp>();
  expect_logits<MnistCnn>();
}

TEST(Models, AreNamedLikeTheirPyTorchScripts) {
  std::vector<std::string> names;
  for (const auto& entry : MnistCnn().named_parameters()) names.push_back(entry.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                      "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}

// By hand: a convolution or linear layer costs two operations a weight and output place.
TEST(Summary, CountsShapesParametersAndOperations) {
  LeNet model;
  const std::vector<SummaryRow> rows = summarize(model, {2, 28, 28, 1});
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].name, "");
  EXPECT_EQ(rows[0].type, "LeNet");
  EXPECT_EQ(rows[0].parameters, 61706);
  EXPECT_EQ(rows[0].outputs, (std::vector<Shape>{{2, 10}}));
  EXPECT_EQ(rows[1].name, "conv1");
  EXPECT_EQ(rows[1].type, "Conv2d");
  EXPECT_EQ(rows[1].outputs, (std::vector<Shape>{{2, 28, 28, 6}}));
  EXPECT_EQ(rows[1].parameters, 6 * 25 + 6);
  EXPECT_EQ(rows[1].flops, 2.0 * 2 * 28 * 28 * 6 * 25);
  EXPECT_EQ(rows[2].flops, 2.0 * 2 * 10 * 10 * 16 * 150);
  EXPECT_EQ(rows[3].flops, 2.0 * 2 * 400 * 120);
  EXPECT_EQ(rows[5].outputs, (std::vector<Shape>{{2, 10}}));
  double inside = 0;
  for (size_t i = 1; i < rows.size(); ++i) inside += rows[i].flops;
  EXPECT_GT(rows[0].flops, inside);  // and the pooling between the layers
}

TEST(Summary, PrintsATable) {
  Sequential model(Flatten(), Linear(4, 1000), ReLU());
  model.call(Tensor::zeros({1, 4}));
  EXPECT_EQ(summary(model, {1, 4}),
            "layer    type        output     parameters   FLOPs\n"
            "(model)  Sequential  (1, 1000)       5,000  9.00 k\n"
            "0        Flatten     (1, 4)              0       0\n"
            "1        Linear      (1, 1000)       5,000  8.00 k\n"
            "2        ReLU        (1, 1000)           0  1.00 k\n"
            "5,000 parameters, 5,000 of them trained; 9.00 k FLOPs for an input (1, 4)\n");
}

TEST(Summary, LeavesTheModelAsItWas) {
  Sequential model(Conv2d(1, 4, {.kernel = 3}), BatchNorm2d(4), Dropout(0.5));
  model.children()[2]->eval();
  model.set_requires_grad(false);
  const auto state = [&] {
    std::vector<std::vector<float>> values;
    for (const auto& entry : model.named_parameters()) {
      values.push_back(entry.parameter->value.to_vector());
    }
    values.push_back(model.named_buffers()[0].tensor.to_vector());
    values.push_back(model.named_buffers()[1].tensor.to_vector());
    return values;
  };
  const auto before = state();
  const RandomKey next = random::next(RandomStream::dropout);
  summarize(model, {2, 6, 6, 1});
  EXPECT_EQ(random::next(RandomStream::dropout).call, next.call + 1);
  EXPECT_EQ(state(), before);
  EXPECT_TRUE(model.training());
  EXPECT_TRUE(model.children()[1]->training());
  EXPECT_FALSE(model.children()[2]->training());
  StepTrace trace;
  model(Tensor::zeros({2, 6, 6, 1}));
  EXPECT_EQ(trace.obstacle(), "");  // as a hook that was left would be
}

TEST(Summary, PutsTheModeBackAfterAnError) {
  LeNet model;
  expect_error<ShapeError>([&] { return summarize(model, {1, 28, 28, 3}); }, "(in LeNet/conv1)");
  EXPECT_TRUE(model.conv1.training());
  EXPECT_EQ(model(Tensor::zeros({1, 28, 28, 1})).shape(), (Shape{1, 10}));
}

TEST(DryRun, CountsUnderNamesAndComputesNothing) {
  const Tensor y = Tensor::ones({8});
  DryRun dry_run;
  {
    const NameScope outer("outer");
    run(kernels::Fill{.y = y, .value = 5});
    const NameScope inner("inner");
    run(kernels::Unary{.x = y, .y = y, .op = kernels::UnaryOp::exp});
  }
  const NameScope other("outer2");
  run(kernels::Fill{.y = y, .value = 6});
  EXPECT_EQ(y.to_vector(), std::vector<float>(8, 1));
  EXPECT_EQ(dry_run.total().calls, 3);
  EXPECT_EQ(dry_run.under("outer").calls, 2);
  EXPECT_EQ(dry_run.under("outer/inner").flops, 8);
  EXPECT_EQ(dry_run.under("outer").bytes, 32 + 64);  // written; read and written
}

}  // namespace
}  // namespace adret
