// Sorting and the largest elements beyond PyTorch's values: indices, empty lines, errors.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/sort.h>
#include <adret/core/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

TEST(Sort, GivesPlacesWithTheValues) {
  const Tensor x = Tensor::from({3.0, 1.0, 2.0, 1.0}, {4});
  const Sorted y = sort(x);
  expect_values(y.values, {4}, {1, 1, 2, 3});
  EXPECT_EQ(y.indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 3, 2, 0}));
  const Sorted largest = topk(x, 2), smallest = topk(x, 3, {.largest = false});
  expect_values(largest.values, {2}, {3, 2});
  EXPECT_EQ(largest.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
  expect_values(smallest.values, {3}, {1, 1, 2});
}

TEST(Sort, SendsGradientsToWhereTheValuesWere) {
  const Tensor x = leaf({3, 1, 2, 1});
  const auto d = sequence({4}, 3).to_vector<double>();
  expect_values(gradients(sort(x).values, {x})[0], {4}, {d[3], d[0], d[2], d[1]});
  expect_values(gradients(topk(x, 2).values, {x})[0], {4}, {d[0], 0, d[1], 0});
}

TEST(Sort, TakesNoElements) {
  EXPECT_EQ(sort(Tensor::zeros({2, 0})).values.shape(), Shape({2, 0}));
  EXPECT_EQ(topk(Tensor::zeros({2, 3}), 0).indices.shape(), Shape({2, 0}));
  const Tensor x = variable({0, 3});
  EXPECT_EQ(gradients(sort(x).values, {x})[0].shape(), Shape({0, 3}));
}

TEST(Sort, RefusesDimensionsAndCounts) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>([&] { return sort(x, {.dim = 2}).values; }, "[sort] dimension 2");
  expect_error<ShapeError>([&] { return argsort(x, {.dim = -3}); }, "[argsort] dimension -3");
  expect_error<ShapeError>([&] { return topk(x, 4).values; },
                           "[topk] k is 4, dimension 1 of x (2, 3) has 3 elements");
  expect_error<ShapeError>([&] { return topk(x, -1).values; }, "[topk] k is -1");
}

}  // namespace
}  // namespace adret
