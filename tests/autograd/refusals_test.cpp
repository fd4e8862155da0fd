// What the functions refuse, and what they do at the edges that PyTorch's values do not show.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/group_norm.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/resample.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/ops/sort.h>
#include <adret/autograd/ops/statistics.h>
#include <adret/core/error.h>
#include <adret/layers/resample.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Refusals, NameTheFunctionAndBothDtypes) {
  const Tensor f32 = Tensor::ones({2, 3}), f64 = Tensor::ones({3}, {.dtype = DType::f64});
  const Tensor i32 = Tensor::from({1, 2}, {2}), flags = equal(i32, i32);
  expect_error<ShapeError>([&] { return sin(i32); },
                           "[sin] x (2,) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return silu(i32); }, "[silu] x (2,) is i32");
  expect_error<ShapeError>([&] { return abs(flags); },
                           "[abs] x (2,) is boolean, wanted numbers; convert it with to(dtype)");
  expect_error<ShapeError>([&] { return atan2(f32, f64); },
                           "[atan2] a (2, 3) is f32, b (3,) is f64; dtypes must be equal");
  expect_error<ShapeError>([&] { return atan2(i32, i32); }, "[atan2] y (2,) is i32");
  expect_error<ShapeError>([&] { return fmod(flags, flags); }, "[fmod] a (2,) is boolean");
  expect_error<ShapeError>([&] { return where(f32, f32, f32); },
                           "[where] condition (2, 3) is f32, wanted bool");
  expect_error<ShapeError>([&] { return where(greater(f32, f32), f32, f64); },
                           "[where] a (2, 3) is f32, b (3,) is f64");
  expect_error<ShapeError>([&] { return var(i32); }, "[var] x (2,) is i32");
  expect_error<ShapeError>([&] { return argmax(flags); }, "[argmax] x (2,) is boolean");
}

TEST(Refusals, SayWhichArgumentDoesNotFit) {
  const Tensor x = Tensor::ones({2, 3});
  expect_error<ShapeError>([&] { return clamp(x, 1, 0); },
                           "[clamp] bounds are 1 and 0, wanted low <= high");
  expect_error<ShapeError>([&] { return softplus(x, {.beta = 0}); }, "[softplus] beta is 0");
  expect_error<ShapeError>([&] { return glu(x); },
                           "[glu] dimension -1 of x (2, 3) has an odd size");
  expect_error<ShapeError>([&] { return prelu(x, Tensor::ones({2})); },
                           "[prelu] weight has 2 slopes, x (2, 3) wants 1 or one for each channel");
  expect_error<ShapeError>([&] { return norm(x, -1); }, "[norm] p is -1, wanted 0 or more");
  expect_error<ShapeError>(
      [&] {
        return argmax(Tensor::zeros({2, 0}), {.dim = 1});
      },
      "[argmax] no elements to choose from in (2, 0)");
  expect_error<ShapeError>([&] { return cumprod(x, 2); }, "[cumprod] dimension 2 is out of range");
  expect_error<ShapeError>([&] { return linear_recurrence(x, Tensor::ones({2}), 0); },
                           "[linear_recurrence] terms is (2,), wanted (2, 3)");
}

TEST(Refusals, AreThoseOfTheLayers) {
  const Tensor x = Tensor::ones({2, 3, 2, 4}), statistics = Tensor::ones({4});
  for (const double epsilon : {-1e-5, nan}) {
    expect_error<ShapeError>([&] { return layer_norm(x, {}, {}, {.epsilon = epsilon}); },
                             "[layer_norm] epsilon is");
    expect_error<ShapeError>([&] { return rms_norm(x, {}, {.epsilon = epsilon}); },
                             "[rms_norm] epsilon is");
    expect_error<ShapeError>([&] { return group_norm(x, 2, {}, {}, {.epsilon = epsilon}); },
                             "[group_norm] epsilon is");
    expect_error<ShapeError>([&] { return instance_norm(x, {}, {}, {.epsilon = epsilon}); },
                             "[instance_norm] epsilon is");
    expect_error<ShapeError>([&] { return batch_norm(x, {}, {}, {}, {}, {.epsilon = epsilon}); },
                             "[batch_norm] epsilon is");
    expect_error<ShapeError>([&] { return cosine_similarity(x, x, {.epsilon = epsilon}); },
                             "[cosine_similarity] epsilon is");
  }
  for (const double momentum : {-0.1, 1.1, nan}) {
    expect_error<ShapeError>(
        [&] { return batch_norm(x, {}, {}, statistics, statistics, {.momentum = momentum}); },
        "[batch_norm] momentum is");
  }
}

TEST(Refusals, OfADimensionOfAScalar) {
  const Tensor x = Tensor::ones({});
  const char* const none = "is out of range for a scalar, which has none; reshape it to (1,)";
  expect_error<ShapeError>([&] { return sum(x, {.dims = {0}}); }, none);
  expect_error<ShapeError>([&] { return softmax(x); }, none);
  expect_error<ShapeError>([&] { return cumsum(x, 0); },
                           "[cumsum] dimension 0 is out of range for a scalar");
  expect_error<ShapeError>([&] { return sort(x); },
                           "[sort] dimension -1 is out of range for a scalar");
}

TEST(Refusals, OfAddInPlaceHaveItsName) {
  const NoGrad no_grad;
  const Tensor x = Tensor::ones({2}, {.dtype = DType::boolean});
  expect_error<ShapeError>([&] { return add_(x, x), 0; }, "[add_] to (2,) is boolean, wanted");
}

// Times 1 / 49 it would be rounded twice, and 1 / 1e-39 is no f32.
TEST(Divide, ByAScalarRoundsOnce) {
  const Tensor x = leaf({49, 98, 1});
  const Tensor y = x / 49;
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{1, 2, 1.0 / 49}));
  const Tensor slope = grad({y}, {x}, {.grad_outputs = {leaf({49, 98, 1})}})[0];
  EXPECT_EQ(slope.to_vector<double>(), y.to_vector<double>());
  const Tensor tiny = Tensor::from<float>({1e-38f}, {1});
  EXPECT_EQ((tiny / 1e-39).item(), 1e-38f / 1e-39f);
  EXPECT_EQ((tiny / 0x1p-140).item(), 1e-38f / 0x1p-140f);
  EXPECT_EQ((tiny / -0x1p-20).item(), 1e-38f / -0x1p-20f);
  EXPECT_EQ((Tensor::ones({1}) / INFINITY).item(), 0);
}

TEST(Lerp, CountsFromTheNearerEnd) {
  const Tensor a = leaf({1e17, -1e17, 1}), b = leaf({1, 1, 3});
  for (const double weight : {1.0, 0.0, 0.75}) {
    const Tensor weights = leaf({weight, weight, weight});
    const std::vector<double> wanted = weight == 1   ? std::vector<double>{1, 1, 3}
                                       : weight == 0 ? std::vector<double>{1e17, -1e17, 1}
                                                     : std::vector<double>{2.5e16, -2.5e16, 2.5};
    expect_values(lerp(a, b, weight), {3}, wanted);
    expect_values(lerp(a, b, weights), {3}, wanted);
    const std::vector<Tensor> d = grad({sum(lerp(a, b, weights))}, {a, b, weights});
    expect_values(d[0], {3}, std::vector<double>(3, 1 - weight));
    expect_values(d[1], {3}, std::vector<double>(3, weight));
    expect_values(d[2], {3}, {1 - 1e17, 1 + 1e17, 2});
    expect_values(grad({sum(lerp(a, b, weight))}, {a})[0], {3}, std::vector<double>(3, 1 - weight));
  }
}

TEST(Refusals, OfSizesWhoseProductsNeedMoreThan64Bits) {
  const int64_t large = int64_t(1) << 32;
  const Tensor x = Tensor::ones({1, 2, 2, 4}), empty = Tensor::ones({1, large * 256, 1, 0});
  expect_error<ShapeError>([&] { return pixel_shuffle(x, large); },
                           "[pixel_shuffle] factor 4294967296x4294967296, wanted at most");
  expect_error<ShapeError>([&] { return pixel_shuffle(x, 3037000500); }, "[pixel_shuffle] factor");
  expect_error<ShapeError>([&] { return pixel_shuffle(empty, large / 2 - 1); },
                           "[pixel_shuffle] x (1, 1099511627776, 1, 0) has no room for factor");
  Upsample upsample({.factor = (int64_t(1) << 62) + 1});  // times 4 it is 4
  expect_error<ShapeError>(
      [&] {
        return upsample(Tensor::ones({1, 4, 4, 1}));
      },
      "[interpolate] size 2147483648x2147483648, wanted at most");
  expect_error<ShapeError>(
      [] {
        return Upsample1d({.factor = int64_t(1) << 62})(Tensor::ones({1, 4, 1}));
      },
      "[interpolate1d] size 1x2147483648, wanted at most");
  expect_error<ShapeError>(
      [&] {
        return conv2d(Tensor::ones({1, 4, 4, 0}), Tensor::ones({0, 2, 2, 4}), {},
                      {.groups = int64_t(1) << 62});
      },
      "[conv2d] groups 4611686018427387904, wanted at most");
}

TEST(Where, KeepsNanOfTheOtherSideOutOfTheGradient) {
  const Tensor x = leaf({-1, 0, 4});
  const Tensor is_positive = greater(x, Tensor::zeros({}, {.dtype = DType::f64}));
  expect_values(grad({sum(where(is_positive, sqrt(where(is_positive, x, 1)), 0))}, {x})[0], {3},
                {0, 0, 0.25});
}

TEST(Norm, HasDerivativeZeroAtZero) {
  for (double p : {1.0, 2.0, 1.5, 3.0}) {
    const Tensor x = leaf({0, 0, 0});
    expect_values(grad({norm(x, p)}, {x})[0], {3}, {0, 0, 0});
  }
  const Tensor equal_ones = leaf({2, 2});
  expect_values(grad({stddev(equal_ones)}, {equal_ones})[0], {2}, {0, 0});
}

TEST(Statistics, OfTooFewElements) {
  expect_values(var(Tensor::full({1}, 3)), {}, {nan});
  expect_values(var(Tensor::full({2}, 3), {.correction = 0}), {}, {0});
  expect_values(logsumexp(Tensor::zeros({2, 0}), {.dims = {1}}), {2}, {-inf, -inf});
  expect_values(norm(Tensor::zeros({0})), {}, {0});
  expect_values(prod(Tensor::zeros({2, 0}), {.dims = {1}}), {2}, {1, 1});
  EXPECT_FALSE(any(Tensor::zeros({0})).item<bool>());
  EXPECT_TRUE(all(Tensor::zeros({0})).item<bool>());
}

TEST(Statistics, Of16BitsAreComputedInF32) {
  // The mean is 256.5, which bf16 does not hold; the values are.
  const Tensor x = Tensor::from<float>({256, 258, 256, 256}, {4}).to(DType::bf16);
  EXPECT_EQ(var(x).dtype(), DType::bf16);
  expect_values(var(x), {}, {1}, 1e-2);
}

TEST(LogSumExp, ShiftsLargeValues) {
  const Tensor x = leaf({1000, 1000, -inf});
  const Tensor y = logsumexp(x);
  expect_values(y, {}, {1000 + std::log(2)});
  expect_values(grad({y}, {x})[0], {3}, {0.5, 0.5, 0});
  expect_values(logsumexp(leaf({inf, 1})), {}, {inf});
  expect_values(logsumexp(leaf({nan, 1})), {}, {nan});
}

TEST(Extremes, GiveValuesAndPlacesThatBelongTogether) {
  const Tensor x = leaf({3, 9, 9, -1, 4, -1}, {2, 3});
  const Extremes largest = max_with_indices(x, {.dim = 1});
  expect_values(largest.values, {2}, {9, 4});
  EXPECT_EQ(largest.indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  expect_values(grad({sum(largest.values)}, {x})[0], {2, 3}, {0, 1, 0, 0, 1, 0});
  const Extremes smallest = min_with_indices(x, {.keepdim = true});
  expect_values(smallest.values, {1, 1}, {-1});
  EXPECT_EQ(smallest.indices.shape(), (Shape{1, 1}));
  EXPECT_EQ(smallest.indices.item<int64_t>(), 3);
  expect_values(grad({smallest.values}, {x},
                     {.grad_outputs = {Tensor::ones({1, 1}, {.dtype = DType::f64})}})[0],
                {2, 3}, {0, 0, 0, 1, 0, 0});
}

TEST(Scans, HaveDerivativesWhereFactorsAreZero) {
  const Inputs inputs = {leaf({2, 0, 0, 0.5, 0, 3, 1, -1}, {2, 4})};
  for (const ScanOptions& options : {ScanOptions{}, ScanOptions{.reverse = true},
                                     ScanOptions{.reverse = true, .exclusive = true}}) {
    expect_gradients([&](const Inputs& in) { return cumprod(in[0], 1, options); }, inputs);
    expect_gradients([&](const Inputs& in) { return square(cumsum(in[0], 0, options)); }, inputs);
  }
  expect_gradients([](const Inputs& in) { return prod(in[0], {.dims = {1}}); }, inputs);
  expect_gradients([](const Inputs& in) { return square(linear_recurrence(in[0], in[0], 1)); },
                   inputs);
}

TEST(Functions, KeepNan) {
  const Tensor x = leaf({nan});
  for (Tensor (*function)(const Tensor&) :
       {exp2,      expm1, log2, log1p,    rsqrt,      erf,         erfc,      sin,   cos,   tan,
        asin,      acos,  atan, sinh,     cosh,       floor,       ceil,      round, trunc, frac,
        gelu_tanh, silu,  mish, softsign, logsigmoid, hardsigmoid, hardswish, selu}) {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      EXPECT_TRUE(std::isnan(function(x.to(dtype)).to(DType::f32).item()));
    }
  }
  EXPECT_TRUE(std::isnan(clamp(x, -1, 1).item<double>()));
}

}  // namespace
}  // namespace adret
