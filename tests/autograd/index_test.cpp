// Functions with indices beyond PyTorch's values: dtypes, repeated places, gradients in place,
// errors.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/embedding.h>
#include <adret/autograd/ops/index.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

TEST(Gather, TakesAnyDtypeAndNoElements) {
  const Tensor flags = Tensor::from({true, false, true}, {3});
  EXPECT_EQ(gather(flags, 0, Tensor::from({1, 2}, {2})).to_vector<bool>(),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(index_select(Tensor::zeros({3, 0}), 0, Tensor::from({1, 2}, {2})).shape(),
            Shape({2, 0}));
  EXPECT_EQ(index_select(Tensor::zeros({0, 3}), 1, Tensor::from({1, 2}, {2})).shape(),
            Shape({0, 2}));
  EXPECT_EQ(gather(Tensor::zeros({2, 3}), 1, Tensor::zeros({2, 0}, {.dtype = DType::i64})).shape(),
            Shape({2, 0}));
}

// By hand: sources 0, 1 and 3 go to place 2, of which the last stays.
TEST(Scatter, KeepsTheLastOfThoseThatGoToOnePlace) {
  const Tensor x = variable({4}), source = variable({4}, 7);
  const Tensor indices = Tensor::from<int64_t>({2, 2, 0, 2}, {4});
  const Tensor y = scatter(x, 0, indices, source);
  const auto of_x = x.to_vector<double>(), of_source = source.to_vector<double>();
  expect_values(y, {4}, {of_source[2], of_x[1], of_source[3], of_x[3]});
  const auto dy = sequence({4}, 3).to_vector<double>();
  const std::vector<Tensor> found = gradients(y, {x, source});
  expect_values(found[0], {4}, {0, dy[1], 0, dy[3]});
  expect_values(found[1], {4}, {0, 0, dy[0], dy[2]});
  expect_gradients([&](const Inputs& in) { return square(scatter(in[0], 0, indices, in[1])); },
                   {x, source});
}

TEST(Scatter, AddsIntegersAndKeepsX) {
  const Tensor x = Tensor::from({1, 2, 3}, {3});
  const Tensor y = index_add(x, 0, Tensor::from({2, 2}, {2}), Tensor::from({10, 20}, {2}));
  EXPECT_EQ(y.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 33}));
  EXPECT_EQ(x.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
}

TEST(Embedding, HasAnyShapeOfIndices) {
  const Tensor weight = Tensor::from({0.0, 1.0, 10.0, 11.0}, {2, 2});
  expect_values(embedding(Tensor::from({1}, {}), weight), {2}, {10, 11});
  expect_values(embedding(Tensor::from({1, 0}, {2, 1}), weight), {2, 1, 2}, {10, 11, 0, 1});
  EXPECT_EQ(embedding(Tensor::zeros({0, 3}, {.dtype = DType::i64}), weight).shape(),
            Shape({0, 3, 2}));
}

TEST(Embedding, GivesThePaddingRowNoGradient) {
  const Tensor weight = variable({3, 2}), indices = Tensor::from({0, 1, 0}, {3});
  const auto dy = sequence({3, 2}, 3).to_vector<double>();
  expect_values(gradients(embedding(indices, weight, {.padding_idx = -2}), {weight})[0], {3, 2},
                {dy[0] + dy[4], dy[1] + dy[5], 0, 0, 0, 0});
}

TEST(Embedding, HasASecondDerivativeButForThePaddingRow) {
  const Tensor weight = variable({3, 2}), dy = variable({3, 2}, 4);
  const Tensor y = embedding(Tensor::from({0, 1, 0}, {3}), weight, {.padding_idx = 1});
  const Tensor dweight = grad({y}, {weight}, {.grad_outputs = {dy}, .create_graph = true})[0];
  const auto d = sequence({3, 2}, 3).to_vector<double>();
  expect_values(gradients(dweight, {dy})[0], {3, 2}, {d[0], d[1], 0, 0, d[0], d[1]});
}

TEST(Embedding, SumsNothingForNoIndices) {
  const Tensor weight = variable({3, 2});
  const Tensor y = embedding(Tensor::zeros({0}, {.dtype = DType::i64}), weight);
  expect_values(gradients(y, {weight})[0], {3, 2}, {0, 0, 0, 0, 0, 0});
}

TEST(Indices, OutsideTheDimensionAreNamed) {
  const Tensor x = Tensor::zeros({2, 3}), weight = Tensor::zeros({5, 2});
  expect_error<Error>(
      [&] {
        return gather(x, 1, Tensor::from({0, 1, 2, 3}, {2, 2}));
      },
      "[gather] indices (2, 2) hold 3 at element 3, outside 0..2 (dimension 1 of x (2, 3))");
  expect_error<Error>(
      [&] {
        return index_select(x, 0, Tensor::from<int64_t>({1, -1}, {2}));
      },
      "[index_select] indices (2,) hold -1 at element 1, outside 0..1 (dimension 0 of x (2, 3))");
  expect_error<Error>(
      [&] {
        return embedding(Tensor::from({0, 5}, {1, 2}), weight);
      },
      "[embedding] indices (1, 2) hold 5 at element 1, outside 0..4 (weight (5, 2))");
}

TEST(Indices, OfWrongShapesAreRefused) {
  const Tensor x = Tensor::zeros({2, 3}), rows = Tensor::from({0, 1}, {2});
  expect_error<ShapeError>([&] { return gather(x, 1, rows); },
                           "[gather] indices (2,) and x (2, 3) differ outside dimension 1");
  expect_error<ShapeError>(
      [&] {
        return gather(x, 1, Tensor::zeros({3, 1}, {.dtype = DType::i64}));
      },
      "[gather] indices (3, 1) and x (2, 3) differ outside dimension 1");
  expect_error<ShapeError>([&] { return index_select(x, 0, x); },
                           "[index_select] indices is (2, 3), wanted (n)");
  expect_error<ShapeError>([&] { return index_select(x, 0, Tensor::zeros({2})); },
                           "[index_select] indices (2,) is f32, wanted i64");
  expect_error<ShapeError>([&] { return index_select(x, 2, rows); }, "[index_select] dimension 2");
  expect_error<ShapeError>(
      [&] {
        return scatter(x, 1, Tensor::zeros({2, 2}, {.dtype = DType::i64}), x);
      },
      "[scatter] source is (2, 3), wanted (2, 2)");
  expect_error<ShapeError>(
      [&] {
        return scatter(x, 1, Tensor::zeros({2, 2}, {.dtype = DType::i64}),
                       Tensor::zeros({2, 2}, {.dtype = DType::f64}));
      },
      "[scatter] x (2, 3) is f32, source (2, 2) is f64; dtypes must be equal");
  expect_error<ShapeError>([&] { return index_add(x, 1, rows, x); },
                           "[index_add] source is (2, 3), wanted (2, 2)");
  const Tensor flags = Tensor::from({true, false}, {2});
  expect_error<ShapeError>([&] { return index_add(flags, 0, rows, flags); },
                           "[index_add] x (2,) is boolean, wanted a floating dtype, i32 or i64");
  expect_error<ShapeError>([&] { return scatter_add(flags, 0, rows, flags); },
                           "[scatter_add] x (2,) is boolean");
}

TEST(Embedding, RefusesWhatIsNoTable) {
  const Tensor rows = Tensor::from({0, 1}, {2});
  expect_error<ShapeError>([&] { return embedding(rows, Tensor::zeros({5})); },
                           "[embedding] weight is (5,), wanted (V, C)");
  expect_error<ShapeError>(
      [&] {
        return embedding(Tensor::zeros({2}), Tensor::zeros({5, 2}));
      },
      "[embedding] indices (2,) is f32, wanted i64");
  expect_error<ShapeError>(
      [&] {
        return embedding(rows, Tensor::zeros({5, 2}), {.padding_idx = -6});
      },
      "[embedding] padding_idx is -6, weight (5, 2) has 5 rows");
}

TEST(MaskedFill, RefusesMasksThatDoNotFit) {
  const Tensor x = Tensor::zeros({3});
  expect_error<ShapeError>([&] { return masked_fill(x, x, 0); },
                           "[masked_fill] mask (3,) is f32, wanted boolean");
  expect_error<ShapeError>(
      [&] {
        return masked_fill(x, Tensor::zeros({2, 3}, {.dtype = DType::boolean}), 0);
      },
      "[masked_fill] mask (2, 3) does not stretch to x (3,)");
}

}  // namespace
}  // namespace adret
