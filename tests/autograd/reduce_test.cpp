// Reductions: values, derivatives, ties and errors.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Reduction = Tensor (*)(const Tensor&, const ReduceOptions&);
constexpr Reduction reductions[] = {sum, mean, max, min};

TEST(Reduce, OverAllOrSomeDimensions) {
  const Tensor x = Tensor::from({1.0, 5.0, 3.0, 2.0, 4.0, 9.0}, {2, 3});
  expect_values(sum(x), {}, {24});
  expect_values(mean(x, {.dims = {1}}), {2}, {3, 5});
  expect_values(max(x, {.dims = {-2}}), {3}, {2, 5, 9});
  expect_values(min(x, {.dims = {1}, .keepdim = true}), {2, 1}, {1, 2});
  expect_values(sum(x, {.dims = {0, -1}, .keepdim = true}), {1, 1}, {24});
  expect_values(sum(Tensor::full({}, 3)), {}, {3});
}

TEST(Reduce, HasDerivativesOverAnyDimensions) {
  for (Reduction reduction : reductions) {
    for (const ReduceOptions& options : {ReduceOptions{}, ReduceOptions{{0}, false},
                                         ReduceOptions{{0, 2}, true}, ReduceOptions{{-1}, true}}) {
      expect_gradients([&](const Inputs& in) { return square(reduction(in[0], options)); },
                       {variable({2, 3, 2})});
    }
    expect_gradients([&](const Inputs& in) { return reduction(in[0], {}); }, {variable({})});
    expect_gradients([&](const Inputs& in) { return reduction(in[0], {.dims = {1}}); },
                     {variable({0, 3})});
  }
}

TEST(Max, SharesTheGradientOfEqualElements) {
  const Tensor x = leaf({4, 1, 4, 4, 2, 2}, {2, 3});
  expect_values(grad({sum(max(x, {.dims = {1}}))}, {x})[0], {2, 3}, {0.5, 0, 0.5, 1, 0, 0});
  expect_values(grad({min(x)}, {x})[0], {2, 3}, {0, 1, 0, 0, 0, 0});
  expect_values(grad({max(x)}, {x})[0], {2, 3}, {1. / 3, 0, 1. / 3, 1. / 3, 0, 0});
}

TEST(Reduce, OfNothing) {
  const Tensor x = Tensor::zeros({2, 0});
  expect_values(sum(x, {.dims = {1}}), {2}, {0, 0});
  EXPECT_TRUE(std::isnan(mean(x).item()));
  expect_values(max(Tensor::zeros({0, 3}), {.dims = {1}}), {0}, {});
  expect_error<ShapeError>([&] { return max(x, {.dims = {1}}); },
                           "[max] no elements to choose from in (2, 0)");
  expect_error<ShapeError>([&] { return min(x); }, "[min] no elements to choose from");
}

TEST(Reduce, RefusesWrongDimensionsAndDtypes) {
  const Tensor x = Tensor::ones({2, 3});
  expect_error<ShapeError>(
      [&] {
        return sum(x, {.dims = {1, -1}});
      },
      "[sum] dimension -1 of (2, 3) is named twice");
  expect_error<ShapeError>([&] { return mean(x, {.dims = {2}}); },
                           "[mean] dimension 2 is out of range for shape (2, 3); wanted -2..1");
  expect_error<ShapeError>([&] { return mean(Tensor::from({1, 2}, {2})); }, "[mean] x (2,) is i32");
}

TEST(SumTo, UndoesABroadcast) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3});
  expect_values(sum_to(x, {3}), {3}, {5, 7, 9});
  expect_values(sum_to(x, {2, 1}), {2, 1}, {6, 15});
  expect_values(sum_to(x, {}), {}, {21});
  EXPECT_TRUE(sum_to(x, {2, 3}).is_same(x));
  expect_gradients(
      [](const Inputs& in) {
        return square(sum_to(in[0], {1, 3}));
      },
      {variable({2, 2, 3})});
  expect_error<ShapeError>([&] { return sum_to(x, {2}); }, "[sum_to] shapes");
  expect_error<ShapeError>(
      [&] {
        return sum_to(x, {1, 2, 3});
      },
      "[sum_to] (1, 2, 3) does not broadcast to x (2, 3)");
}

}  // namespace
}  // namespace adret
