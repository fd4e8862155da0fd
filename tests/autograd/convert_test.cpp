// Copies, conversions between dtypes, and writes in place.
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

TEST(Clone, CopiesTheElementsAndPassesTheGradient) {
  const Tensor x = variable({2, 3});
  const Tensor y = x.clone();
  EXPECT_NE(y.storage(), x.storage());
  expect_values(y, {2, 3}, x.to_vector<double>());
  expect_gradients([](const Inputs& in) { return square(in[0].clone()); }, {x});
}

TEST(To, ReturnsTheSameTensorWhenThereIsNothingToConvert) {
  const Tensor x = Tensor::ones({2});
  EXPECT_TRUE(x.to(DType::f32).is_same(x));
  EXPECT_TRUE(x.to(Device::cpu()).is_same(x));
}

TEST(To, PassesTheGradientBackInTheOldDtype) {
  Tensor x = Tensor::from({1.5f, -2.25f}, {2});
  x.set_requires_grad(true);
  const Tensor y = x.to(DType::f64);
  sum(y * Tensor::from({3.0, 5.0}, {2})).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  expect_values(x.grad(), {2}, {3, 5});
}

TEST(To, IsDifferentiableTwice) {
  Tensor x = Tensor::from({1.5f, -2.25f}, {2});
  x.set_requires_grad(true);
  const Tensor y = x.to(DType::f64);
  const Tensor slope = grad({sum(y * y * y)}, {x}, {.create_graph = true})[0];
  expect_values(grad({sum(slope)}, {x})[0], {2}, {9, -13.5});  // 6 x
}

TEST(To, IntegersCarryNoGradient) {
  Tensor x = Tensor::from({1.75f, -2.25f}, {2});
  x.set_requires_grad(true);
  const Tensor y = x.to(DType::i32);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.to_vector<int32_t>(), (std::vector<int32_t>{1, -2}));
  expect_values(Tensor::from({3, -1}, {2}).to(DType::f64), {2}, {3, -1});
}

TEST(InPlace, WritesUnderNoGradAndRaisesTheVersion) {
  const Tensor x = Tensor::from({1.0, 2.0}, {2});
  const uint32_t before = x.version();
  NoGrad no_grad;
  add_(x, Tensor::from({10.0, 20.0}, {2}));
  expect_values(x, {2}, {11, 22});
  copy_(x, Tensor::from({5.0, 6.0}, {2}));
  expect_values(x, {2}, {5, 6});
  fill_(x, -1);
  expect_values(x, {2}, {-1, -1});
  EXPECT_EQ(x.version(), before + 3);
  add_(x, x);
  expect_values(x, {2}, {-2, -2});
}

TEST(InPlace, IsRefusedWhileFunctionsAreRecorded) {
  const Tensor x = Tensor::ones({2});
  const std::string text =
      "_] writes in place, which is not recorded; put it in a scope with NoGrad";
  expect_error<Error>([&] { return fill_(x, 1), 0; }, "[fill" + text);
  expect_error<Error>([&] { return copy_(x, x), 0; }, "[copy" + text);
  expect_error<Error>([&] { return add_(x, x), 0; }, "[add" + text);
}

TEST(InPlace, RefusesOtherShapesAndDtypesAndSharedMemory) {
  NoGrad no_grad;
  const Tensor x = Tensor::ones({3, 2});
  expect_error<ShapeError>([&] { return copy_(x, Tensor::ones({2})), 0; },
                           "[copy_] from is (2,), wanted (3, 2)");
  expect_error<ShapeError>(
      [&] {
        return add_(x, Tensor::ones({3, 2}, {.dtype = DType::f64})), 0;
      },
      "[add_] to (3, 2) is f32, from (3, 2) is f64; dtypes must be equal");
  expect_error<ShapeError>([&] { return copy_(slice(x, 0, 0, 2), slice(x, 0, 1, 3)), 0; },
                           "[copy_] to and from share part of their memory");
}

// An in-place change of what backward still needs is noticed, not computed with.
TEST(InPlace, IsNoticedByTheBackwardThatNeedsTheOldValues) {
  const Tensor x = variable({3});
  const Tensor y = exp(x);
  const Tensor loss = sum(y);
  {
    NoGrad no_grad;
    fill_(y, 0);
  }
  expect_error<Error>([&] { return loss.backward(), 0; },
                      "[exp] a tensor (3,) f64 that backward still needs was written to");

  const Tensor product = sum(x * x);
  {
    NoGrad no_grad;
    fill_(slice(x, 0, 0, 1), 0);
  }
  expect_error<Error>([&] { return product.backward(), 0; },
                      "[multiply] a tensor (3,) f64 that backward still needs was written to");
}

TEST(InPlace, OfWhatBackwardDoesNotNeedIsFine) {
  const Tensor x = variable({3});
  const Tensor y = x + 1;
  const Tensor loss = sum(y);
  {
    NoGrad no_grad;
    fill_(y, 0);
  }
  loss.backward();
  expect_values(x.grad(), {3}, {1, 1, 1});
}

}  // namespace
}  // namespace adret
