// Normalisation of samples: derivatives, the form with a sum, 16 bits, and refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/group_norm.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

void expect_equal(const Inputs& actual, const Inputs& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    expect_values(actual[i], expected[i].shape(), expected[i].to_vector<double>(), tolerance);
  }
}

// The fused gradient and the one of public functions.
void expect_both_backwards_alike(const Inputs& outputs, const Inputs& inputs) {
  GradOptions options{.retain_graph = true};
  for (const Tensor& y : outputs) options.grad_outputs.push_back(sequence(y.shape(), 3));
  const Inputs fused = grad(outputs, inputs, options);
  options.create_graph = true;
  expect_equal(grad(outputs, inputs, options), fused);
}

TEST(GroupNorm, ComposesTheSameGradientAsItsKernel) {
  const Tensor x = variable({3, 4, 6}), w = variable({6}, 1), b = variable({6}, 2);
  expect_both_backwards_alike({layer_norm(x, w, b)}, {x, w, b});
  expect_both_backwards_alike({rms_norm(x, w)}, {x, w});
  expect_both_backwards_alike({group_norm(x, 3, w, b)}, {x, w, b});
  expect_both_backwards_alike({instance_norm(x, w, b)}, {x, w, b});
  const Tensor added = variable({3, 4, 6}, 50);
  const auto [sum, y] = layer_norm_of_sum(x, added, w, b);
  expect_both_backwards_alike({sum, y}, {x, added, w, b});
  expect_both_backwards_alike({y}, {x, added, w, b});
}

TEST(LayerNorm, OfASumIsTheSameAsOneByOne) {
  const Tensor x = variable({5, 7}), added = variable({5, 7}, 50);
  const Tensor w = variable({7}, 1), b = variable({7}, 2);
  const Tensor s = x + added;
  const GradOptions options{.grad_outputs = {sequence({5, 7}, 3), sequence({5, 7}, 9)}};
  for (const bool centered : {true, false}) {
    const NormedSum fused =
        centered ? layer_norm_of_sum(x, added, w, b) : rms_norm_of_sum(x, added, w);
    const Tensor y = centered ? layer_norm(s, w, b) : rms_norm(s, w);
    expect_equal({fused.sum, fused.y}, {s, y});
    const Inputs inputs = centered ? Inputs{x, added, w, b} : Inputs{x, added, w};
    GradOptions keep = options;
    keep.retain_graph = true;
    expect_equal(grad({fused.sum, fused.y}, inputs, options), grad({s, y}, inputs, keep));
  }
}

TEST(LayerNorm, OfASumPassesTheSumsGradientOn) {
  const Tensor x = variable({2, 3}), added = sequence({2, 3}, 5);
  expect_equal(gradients(layer_norm_of_sum(x, added).sum, {x}), {sequence({2, 3}, 3)});
  const Tensor weight = variable({3}, 1);
  // Of the parameters alone, where x asks for nothing.
  EXPECT_EQ(gradients(layer_norm_of_sum(added, added, weight).y, {weight})[0].shape(), (Shape{3}));
}

TEST(LayerNorm, GivesTwoParametersThatAreAddedTheirOwnGradients) {
  const Tensor x = variable({2, 3}), added = variable({2, 3}, 20);
  sum(layer_norm_of_sum(x, added).y * sequence({2, 3}, 7)).backward();
  expect_equal({x.grad()}, {added.grad()});
  EXPECT_NE(max(x.grad()).item<double>(), 0);
}

TEST(LayerNorm, OfNoSamplesHasNoGradientButZeros) {
  const Tensor x = variable({0, 3, 4}), weight = variable({4}), bias = variable({4}, 1);
  for (const Tensor& y : {layer_norm(x, weight, bias), group_norm(x, 2, weight, bias)}) {
    EXPECT_EQ(y.shape(), x.shape());
    const Inputs d = gradients(y, {x, weight, bias});
    EXPECT_EQ(d[0].shape(), x.shape());
    expect_values(d[1], {4}, {0, 0, 0, 0});
    expect_values(d[2], {4}, {0, 0, 0, 0});
  }
}

TEST(LayerNorm, TakesF32ParametersFor16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const Tensor wide = sequence({4, 8}).to(dtype).to(DType::f32);
    const Tensor weight = sequence({8}, 1).to(DType::f32), bias = sequence({8}, 2).to(DType::f32);
    Tensor x = wide.to(dtype);
    x.set_requires_grad(true);
    const Tensor y = layer_norm(x, weight, bias), expected = layer_norm(wide, weight, bias);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_LE(max(abs(y.to(DType::f32) - expected)).item<float>(), 4 * unit);
    EXPECT_EQ(gradients(y.to(DType::f64), {x})[0].dtype(), dtype);
    expect_error<ShapeError>(
        [&] { return layer_norm(x, weight.to(dtype)); },
        "[layer_norm] weight (8,) is " + std::string(name(dtype)) + ", wanted f32");
  }
}

TEST(LayerNorm, RefusesWhatDoesNotGoTogether) {
  const Tensor x = Tensor::ones({4, 3}), two = Tensor::ones({2}), three = Tensor::ones({3});
  expect_error<ShapeError>([&] { return layer_norm(x, two); },
                           "[layer_norm] weight is (2,), wanted (3,)");
  expect_error<ShapeError>([&] { return layer_norm(x, three, two); },
                           "[layer_norm] bias is (2,), wanted (3,)");
  expect_error<ShapeError>([&] { return layer_norm(x, three, {}, {.dims = 2}); },
                           "[layer_norm] weight is (3,), wanted (4, 3)");
  expect_error<ShapeError>([&] { return layer_norm(x, {}, {}, {.dims = 3}); },
                           "[layer_norm] dims is 3, wanted 1..2 for x (4, 3)");
  expect_error<ShapeError>([&] { return rms_norm(x, three, {.dims = 0}); },
                           "[rms_norm] dims is 0, wanted 1..2 for x (4, 3)");
  expect_error<ShapeError>(
      [&] {
        return layer_norm(Tensor::ones({4, 0}));
      },
      "[layer_norm] a sample of x (4, 0) has no values");
  expect_error<ShapeError>([&] { return rms_norm(x, three.to(DType::f64)); },
                           "[rms_norm] weight (3,) is f64, wanted f32");
  expect_error<ShapeError>(
      [&] {
        return layer_norm(Tensor::from({1, 2}, {2}));
      },
      "[layer_norm] x (2,) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return layer_norm_of_sum(x, three); },
                           "[layer_norm_of_sum] added is (3,), wanted (4, 3)");
  expect_error<ShapeError>([&] { return rms_norm_of_sum(x, x.to(DType::f64)); },
                           "[rms_norm_of_sum] x (4, 3) is f32, added (4, 3) is f64");
}

TEST(GroupNorm, RefusesWhatDoesNotGoTogether) {
  const Tensor x = Tensor::ones({2, 4, 8});
  expect_error<ShapeError>([&] { return group_norm(x, 3); },
                           "[group_norm] 3 groups do not divide the 8 channels of x (2, 4, 8)");
  expect_error<ShapeError>([&] { return group_norm(x, 0); }, "[group_norm] 0 groups do not divide");
  expect_error<ShapeError>([&] { return group_norm(Tensor::ones({8}), 2); },
                           "[group_norm] x is (8,), wanted (N, ..., C)");
  expect_error<ShapeError>([&] { return group_norm(x, 2, Tensor::ones({4})); },
                           "[group_norm] weight is (4,), wanted (8,)");
  expect_error<ShapeError>(
      [&] {
        return instance_norm(Tensor::ones({2, 8}));
      },
      "[instance_norm] x is (2, 8), wanted (N, ..., C)");
  expect_error<ShapeError>(
      [&] {
        return instance_norm(Tensor::ones({2, 1, 1, 8}));
      },
      "[instance_norm] x (2, 1, 1, 8) has a single value per sample and "
      "channel");
}

}  // namespace
}  // namespace adret
