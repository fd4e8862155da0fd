// Functions that rearrange elements: values, shared memory, derivatives and errors.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

Tensor counting(const Shape& shape) {
  std::vector<double> values(size_t(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = double(i);
  return Tensor::from(values, shape);
}

TEST(Reshape, SharesMemoryAndWorksOutOneSize) {
  const Tensor x = counting({2, 3});
  const Tensor y = x.reshape({3, -1});
  expect_values(y, {3, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(y.data(), x.data());
}

TEST(Reshape, RefusesSizesThatDoNotFit) {
  const Tensor x = counting({2, 3});
  expect_error<ShapeError>(
      [&] {
        return x.reshape({4, -1});
      },
      "[reshape] x (2, 3) has 6 elements, which do not fill (4, -1)");
  expect_error<ShapeError>([&] { return x.reshape({5}); },
                           "[reshape] x (2, 3) has 6 elements, which do not fill (5)");
  expect_error<ShapeError>([&] { return x.reshape({-1, -1}); }, "hold -1 twice");
  expect_error<ShapeError>(
      [&] {
        return Tensor::zeros({0, 3}).reshape({0, -1});
      },
      "[reshape] -1 in sizes (0, -1) could be anything");
  expect_error<ShapeError>([&] { return x.reshape({-2, -3}); }, "negative size");
}

TEST(Reshape, HasDerivatives) {
  expect_gradients(
      [](const Inputs& in) {
        return square(in[0].reshape({3, 2}));
      },
      {variable({2, 3})});
  expect_gradients(
      [](const Inputs& in) {
        return square(in[0].reshape({0, 2}));
      },
      {variable({0, 3})});
}

// Values: PyTorch 1.13, flatten(1) of the image as (N, C, H, W).
TEST(Flatten, WritesImagesInTheOrderOfPyTorch) {
  const Tensor x = sequence({1, 2, 2, 3});
  expect_values(flatten(x), {1, 12},
                {-1.578125, -1.265625, -0.953125, -0.640625, -0.421875, -0.109375, 0.203125,
                 0.515625, 0.734375, 1.046875, 1.359375, -1.484375});
  expect_gradients([](const Inputs& in) { return square(flatten(in[0])); },
                   {variable({2, 2, 2, 3})});
}

TEST(Flatten, WritesVolumesInTheOrderOfPyTorch) {
  std::vector<double> values(12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = double(i);
  const Tensor x = leaf(values, {1, 2, 1, 3, 2});  // channel c of place p is 2 p + c
  expect_values(flatten(x), {1, 12}, {0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
  expect_gradients([](const Inputs& in) { return square(flatten(in[0])); }, {x});
}

TEST(Flatten, CopiesNothingWhereNothingMoves) {
  for (const Shape& shape : {Shape{2, 1, 1, 3}, Shape{2, 2, 3, 1}, Shape{2, 3}, Shape{2, 3, 4},
                             Shape{2}, Shape{2, 1, 1, 1, 3}, Shape{2, 2, 1, 2, 1}}) {
    const Tensor x = counting(shape);
    const Tensor y = flatten(x);
    EXPECT_EQ(y.data(), x.data()) << shape;
    EXPECT_EQ(y.shape(), Shape({2, x.numel() / 2})) << shape;
  }
  EXPECT_EQ(flatten(Tensor::zeros({0, 2, 2, 3})).shape(), Shape({0, 12}));
  expect_error<ShapeError>([] { return flatten(Tensor::zeros({})); }, "[flatten] x is a scalar");
}

TEST(Permute, ReordersDimensions) {
  const Tensor x = counting({2, 3});
  expect_values(transpose(x, 0, 1), {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_values(transpose(x, -1, -1), {2, 3}, {0, 1, 2, 3, 4, 5});
  // By hand: element (k, i, j) is x(i, j, k).
  expect_values(permute(counting({2, 2, 3}), {2, 0, 1}), {3, 2, 2},
                {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  EXPECT_EQ(permute(Tensor::zeros({0, 3, 2}), {2, 0, 1}).shape(), Shape({2, 0, 3}));
}

TEST(Permute, HasDerivatives) {
  expect_gradients(
      [](const Inputs& in) {
        return square(permute(in[0], {2, 0, 1}));
      },
      {variable({2, 2, 3})});
  expect_gradients([](const Inputs& in) { return square(transpose(in[0], 0, -1)); },
                   {variable({2, 1, 3})});
}

TEST(Permute, WantsEveryDimensionOnce) {
  const Tensor x = counting({2, 3});
  for (const std::vector<int>& order : {std::vector<int>{0, 0}, {0}, {0, 1, 0}, {0, -2}}) {
    expect_error<ShapeError>([&] { return permute(x, order); },
                             "does not name every dimension of x (2, 3) once");
  }
  expect_error<ShapeError>([&] { return transpose(x, 0, 2); }, "[transpose] dimension 2");
}

TEST(Slice, OfTheLeadingDimensionSharesMemoryAndVersion) {
  const Tensor x = counting({4, 2});
  const Tensor y = slice(x, 0, 1, 3);
  expect_values(y, {2, 2}, {2, 3, 4, 5});
  EXPECT_EQ(y.storage(), x.storage());
  NoGrad no_grad;
  fill_(x, 7);
  EXPECT_EQ(y.version(), x.version());
  expect_values(y, {2, 2}, {7, 7, 7, 7});
}

TEST(Slice, OfOtherDimensionsCopies) {
  const Tensor x = counting({2, 3, 2});
  expect_values(slice(x, 1, -2, 3), {2, 2, 2}, {2, 3, 4, 5, 8, 9, 10, 11});
  expect_values(slice(x, -1, 0, 1), {2, 3, 1}, {0, 2, 4, 6, 8, 10});
  EXPECT_NE(slice(x, 1, 0, 3).storage(), x.storage());
  EXPECT_EQ(slice(x, 1, 2, 2).shape(), Shape({2, 0, 2}));
  EXPECT_EQ(slice(Tensor::zeros({0, 3}), 1, 0, 2).shape(), Shape({0, 2}));
}

TEST(Slice, HasDerivatives) {
  for (int dim : {0, 1, 2}) {
    expect_gradients([=](const Inputs& in) { return square(slice(in[0], dim, 1, 2)); },
                     {variable({2, 3, 2})});
  }
  expect_gradients([](const Inputs& in) { return square(slice(in[0], 1, 0, 3)); },
                   {variable({2, 3})});
}

TEST(Slice, RefusesElementsThatAreNotThere) {
  const Tensor x = counting({4, 2});
  for (const auto& [begin, end] : {std::pair{0, 5}, {3, 2}, {-5, 2}}) {
    expect_error<ShapeError>([&, b = begin, e = end] { return slice(x, 0, b, e); },
                             "of dimension 0 do not lie in x (4, 2)");
  }
}

TEST(Concatenate, JoinsAlongAnyDimension) {
  const Tensor a = counting({1, 2}), b = counting({2, 2});
  expect_values(concatenate({a, b}, 0), {3, 2}, {0, 1, 0, 1, 2, 3});
  expect_values(concatenate({b, a.reshape({2, 1})}, -1), {2, 3}, {0, 1, 0, 2, 3, 1});
  expect_values(concatenate({Tensor::zeros({0, 2}, {.dtype = DType::f64}), a}, 0), {1, 2}, {0, 1});
}

TEST(Concatenate, HasDerivatives) {
  expect_gradients(
      [](const Inputs& in) {
        return square(concatenate({in[0], in[1], in[0]}, 1));
      },
      {variable({2, 2, 2}), variable({2, 1, 2}, 5)});
  const Tensor constant = counting({1, 2}), x = variable({1, 2});
  expect_values(gradients(concatenate({constant, x}, 0), {x})[0], {1, 2},
                {sequence({4}, 3).to_vector<double>()[2], sequence({4}, 3).to_vector<double>()[3]});
}

TEST(Concatenate, RefusesWhatDoesNotJoin) {
  expect_error<ShapeError>([] { return concatenate({}, 0); }, "[concatenate] no tensors");
  expect_error<ShapeError>(
      [] {
        return concatenate({counting({1, 2}), counting({1, 3})}, 0);
      },
      "[concatenate] (1, 2) and (1, 3) differ outside dimension 0");
  expect_error<ShapeError>(
      [] {
        return concatenate({counting({2}), Tensor::zeros({2})}, 0);
      },
      "[concatenate] the first tensor (2,) is f64, another (2,) is f32");
}

TEST(BroadcastTo, StretchesAndSumsBack) {
  const Tensor x = Tensor::from({1.0, 2.0}, {2, 1});
  expect_values(broadcast_to(x, {2, 3}), {2, 3}, {1, 1, 1, 2, 2, 2});
  EXPECT_TRUE(broadcast_to(x, {2, 1}).is_same(x));
  expect_gradients(
      [](const Inputs& in) {
        return square(broadcast_to(in[0], {2, 2, 3}));
      },
      {variable({2, 1})});
  expect_error<ShapeError>(
      [&] {
        return broadcast_to(x, {1, 3});
      },
      "[broadcast_to] x (2, 1) does not stretch to (1, 3)");
}

}  // namespace
}  // namespace adret
