// Layers that normalise samples, and batch norms of other ranks.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <adret/layers/group_norm.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>
#include <adret/layers/summary.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

std::vector<std::string> names(const Module& module) {
  std::vector<std::string> list;
  for (const auto& entry : module.named_parameters()) list.push_back(entry.name);
  return list;
}
using Names = std::vector<std::string>;

Tensor input(const Shape& shape) { return sequence(shape).to(DType::f32); }

void expect_same(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.to_vector(), expected.to_vector());
}

TEST(NormLayers, HavePyTorchsParametersAndFunctions) {
  const Tensor x = input({2, 3, 5, 8}), residual = input({2, 3, 5, 8}) + 1;
  LayerNorm layer(8);
  EXPECT_EQ(names(layer), (Names{"weight", "bias"}));
  expect_same(layer(x), layer_norm(x, layer.weight, layer.bias));
  expect_same(layer(x, residual).sum, x + residual);
  expect_same(layer(x, residual).y, layer_norm(x + residual));

  LayerNorm two({5, 8}, {.epsilon = 0.5, .bias = false});
  EXPECT_EQ(names(two), (Names{"weight"}));
  EXPECT_EQ(two.weight.value.shape(), (Shape{5, 8}));
  expect_same(two(x), layer_norm(x, {}, {}, {.dims = 2, .epsilon = 0.5}));
  EXPECT_EQ(names(LayerNorm(8, {.affine = false})), Names{});

  RMSNorm rms(8, {.epsilon = 1e-3});
  EXPECT_EQ(names(rms), (Names{"weight"}));
  expect_same(rms(x), rms_norm(x, {}, {.epsilon = 1e-3}));
  expect_same(rms(x, residual).y, rms_norm(x + residual, {}, {.epsilon = 1e-3}));

  GroupNorm group(4, 8);
  EXPECT_EQ(names(group), (Names{"weight", "bias"}));
  expect_same(group(x), group_norm(x, 4));

  EXPECT_EQ(names(InstanceNorm2d(8)), Names{});
  InstanceNorm2d instance(8, {.affine = true});
  EXPECT_EQ(names(instance), (Names{"weight", "bias"}));
  expect_same(instance(x), instance_norm(x));
}

TEST(InstanceNorms, OfSequencesAndVolumesAreLikeThatOfImages) {
  const Tensor line = input({2, 5, 3}), volume = input({2, 2, 1, 3, 3});
  InstanceNorm1d of_lines(3, {.epsilon = 0.1});
  InstanceNorm3d of_volumes(3, {.affine = true});
  EXPECT_EQ(names(of_lines), Names{});
  EXPECT_EQ(names(of_volumes), (Names{"weight", "bias"}));
  expect_same(of_lines(line), instance_norm(line, {}, {}, {.epsilon = 0.1}));
  expect_same(of_volumes(volume), instance_norm(volume));
  expect_same(of_lines.clone()(line), of_lines(line));
  expect_same(of_volumes.clone()(volume), of_volumes(volume));
  of_volumes.to(DType::bf16);
  EXPECT_EQ(of_volumes.weight.value.dtype(), DType::f32);
  EXPECT_EQ(of_volumes(volume.to(DType::bf16)).dtype(), DType::bf16);
}

TEST(NormLayers, StayInF32WhenTheModelIsConverted) {
  Sequential net(Linear(8, 8), LayerNorm(8), RMSNorm(8), GroupNorm(2, 8));
  net.to(DType::bf16);
  const Tensor y = net(input({4, 8}));
  EXPECT_EQ(y.dtype(), DType::bf16);
  for (const auto& [name, parameter] : net.named_parameters()) {
    EXPECT_EQ(parameter->value.dtype(), name[0] == '0' ? DType::bf16 : DType::f32) << name;
  }
  net.to(DType::f64);
  EXPECT_EQ(net(input({4, 8})).dtype(), DType::f64);
}

TEST(NormLayers, AreInTheSummaryAndCanBeCloned) {
  Sequential net(LayerNorm({3, 8}), GroupNorm(2, 8), BatchNorm1d(8));
  const std::vector<SummaryRow> rows = summarize(net, {2, 3, 8});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1].type, "LayerNorm");
  EXPECT_EQ(rows[1].parameters, 48);
  EXPECT_EQ(rows[2].type, "GroupNorm");
  EXPECT_EQ(rows[3].type, "BatchNorm1d");
  EXPECT_EQ(rows[3].parameters, 16);
  expect_same(net.clone()(input({2, 3, 8})), net(input({2, 3, 8})));
}

TEST(NormLayers, RefuseWrongShapesAndOptions) {
  const Tensor x = Tensor::ones({2, 3});
  expect_error<ShapeError>([&] { return LayerNorm(4)(x); },
                           "[LayerNorm] wants (..., 4,), got (2, 3)");
  expect_error<ShapeError>(
      [&] {
        return LayerNorm({5, 2, 3})(x);
      },
      "[LayerNorm] wants (..., 5, 2, 3), got (2, 3)");
  expect_error<ShapeError>([&] { return RMSNorm(4)(x); }, "[RMSNorm] wants (..., 4,)");
  expect_error<ShapeError>([&] { return GroupNorm(2, 4)(x); },
                           "[GroupNorm] wants (N, ..., 4), got (2, 3)");
  expect_error<ShapeError>([&] { return InstanceNorm2d(3)(x); },
                           "[InstanceNorm2d] wants images (N, H, W, 3), got (2, 3)");
  expect_error<ShapeError>([&] { return InstanceNorm1d(3)(x); },
                           "[InstanceNorm1d] wants sequences (N, L, 3), got (2, 3)");
  expect_error<ShapeError>([&] { return InstanceNorm3d(3)(x); },
                           "[InstanceNorm3d] wants volumes (N, D, H, W, 3), got (2, 3)");
  expect_error<ShapeError>(
      [] {
        return InstanceNorm1d(3)(Tensor::ones({2, 1, 3}));
      },
      "[instance_norm] x (2, 1, 3) has a single value per sample and channel");
  expect_error<Error>([] { return InstanceNorm1d(0); }, "[InstanceNorm1d] channels is 0");
  expect_error<Error>([] { return InstanceNorm3d(1, {.epsilon = -1}); },
                      "[InstanceNorm3d] epsilon is -1");
  expect_error<Error>([] { return LayerNorm(0); }, "[LayerNorm] size is 0");
  expect_error<Error>([] { return LayerNorm(Shape{}); }, "[LayerNorm] the shape has no dimension");
  expect_error<Error>([] { return RMSNorm(3, {.epsilon = -1}); }, "[RMSNorm] epsilon is -1");
  expect_error<Error>([] { return GroupNorm(3, 8); }, "[GroupNorm] 3 groups do not divide 8");
  expect_error<Error>([] { return GroupNorm(0, 8); }, "[GroupNorm] groups is 0");
}

TEST(BatchNorm1d, TakesSamplesAndSequences) {
  BatchNorm1d norm(3);
  for (const Shape& shape : {Shape{4, 3}, Shape{4, 2, 3}}) {
    const Tensor x = input(shape);
    expect_same(norm(x), batch_norm(x, {}, {}, {}, {}));
  }
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 2);
  expect_error<ShapeError>(
      [&] {
        return norm(Tensor::ones({2, 2, 2, 3}));
      },
      "[BatchNorm1d] wants samples (N, 3) or (N, L, 3), got (2, 2, 2, 3)");
  expect_error<Error>([] { return BatchNorm1d(0); }, "[BatchNorm1d] channels is 0");
}

TEST(BatchNorm3d, TakesVolumes) {
  BatchNorm3d norm(3, {.activation = Activation::relu});
  const Tensor x = input({2, 2, 1, 3, 3});
  expect_same(norm(x), batch_norm(x, {}, {}, {}, {}, {.activation = Activation::relu}));
  expect_error<ShapeError>(
      [&] {
        return norm(Tensor::ones({2, 3}));
      },
      "[BatchNorm3d] wants volumes (N, D, H, W, 3), got (2, 3)");
}

}  // namespace
}  // namespace adret
