// Gradients where what is computed in between would overflow, or round to another case; by hand.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/reduce.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace adret {
namespace {

using Values = std::vector<double>;

Tensor leaf(const Values& values, DType dtype) {
  Tensor x = Tensor::from(values, {int64_t(values.size())}).to(dtype);
  x.set_requires_grad(true);
  return x;
}
Values gradient(const Tensor& y, const Tensor& x, double upstream = 1) {
  return grad({sum(y * upstream)}, {x})[0].to(DType::f64).to_vector<double>();
}

// 0.1 in f64 is above a tenth, so it goes into 1 nine times, though 1 / 0.1 rounds to 10.
TEST(ExtremeGradients, TheQuotientOfARemainderIsTheOneThatItTook) {
  const Tensor a = leaf({1}, DType::f64), b = leaf({0.1}, DType::f64);
  EXPECT_EQ(gradient(remainder(a, b), b), Values{-9});
  EXPECT_EQ(gradient(fmod(a, b), b), Values{-9});
}

// d hypot / da = a / hypot = 0.6, times 1024; 300 * 1024 is beyond f16.
TEST(ExtremeGradients, HypotDoesNotOverflowIn16Bits) {
  const Tensor a = leaf({300}, DType::f16), b = leaf({400}, DType::f16);
  EXPECT_NEAR(gradient(hypot(a, b), a, 1024)[0], 614.4, 1);
}

// tanh(softplus(x)) is 1 but for rounding from 20 on, which must not be multiplied with x.
TEST(ExtremeGradients, MishIsTheIdentityFarOut) {
  const Values far{25, 1e18, 1e30, std::numeric_limits<double>::infinity()};
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = leaf(far, dtype);
    for (const double slope : gradient(mish(x), x)) EXPECT_NEAR(slope, 1, 1e-6);
  }
}

TEST(ExtremeGradients, TheSlopeOfPreluHasNoPartInPositiveInfinity) {
  const Tensor x = Tensor::from(Values{std::numeric_limits<double>::infinity(), -2}, {2});
  const Tensor slope = leaf({0.25}, DType::f64);
  EXPECT_EQ(gradient(prelu(x, slope), slope), Values{-2});
}

TEST(ExtremeGradients, ProductsOfTheOthersMayBeLargeAndSmall) {
  const Tensor x = leaf({1e20, 1e20, 1e-20, 1e-20}, DType::f32);
  const Values slopes = gradient(prod(x), x);
  const Values expected{1e-20, 1e-20, 1e20, 1e20};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(slopes[i] / expected[i], 1, 1e-6) << i;
}

}  // namespace
}  // namespace adret
