// Integers and booleans: what wraps around, which dtypes results have, and what is refused.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/statistics.h>
#include <adret/core/error.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using I32 = std::vector<int32_t>;
using I64 = std::vector<int64_t>;
using U8 = std::vector<uint8_t>;

constexpr int32_t low = INT32_MIN, high = INT32_MAX;

template <class T>
Tensor of(const std::vector<T>& values) {
  return Tensor::from(values, {int64_t(values.size())});
}

TEST(Integers, WrapAroundAsTwosComplement) {
  const Tensor x = of<int32_t>({low, high, -1});
  EXPECT_EQ((x + 1).to_vector<int32_t>(), (I32{low + 1, low, 0}));
  EXPECT_EQ((x - 1).to_vector<int32_t>(), (I32{high, high - 1, -2}));
  EXPECT_EQ((1 - x).to_vector<int32_t>(), (I32{low + 1, low + 2, 2}));
  EXPECT_EQ((x * x).to_vector<int32_t>(), (I32{0, 1, 1}));
  EXPECT_EQ((-x).to_vector<int32_t>(), (I32{low, -high, 1}));
  EXPECT_EQ(abs(x).to_vector<int32_t>(), (I32{low, high, 1}));
  EXPECT_EQ(sign(x).to_vector<int32_t>(), (I32{-1, 1, -1}));
  EXPECT_EQ(square(x).to_vector<int32_t>(), (I32{0, 1, 1}));
  EXPECT_EQ(affine(x, 2, 3).to_vector<int32_t>(), (I32{3, 1, 1}));
  EXPECT_EQ(floor_divide(x, -1).to_vector<int32_t>(), (I32{low, -high, 1}));
  const Tensor bytes = of<uint8_t>({250, 0, 7});
  EXPECT_EQ((bytes + 10).to_vector<uint8_t>(), (U8{4, 10, 17}));
  EXPECT_EQ((bytes - 1).to_vector<uint8_t>(), (U8{249, 255, 6}));
  EXPECT_EQ((bytes * 2).to_vector<uint8_t>(), (U8{244, 0, 14}));
  EXPECT_EQ((-bytes).to_vector<uint8_t>(), (U8{6, 0, 249}));
  EXPECT_EQ(abs(bytes).to_vector<uint8_t>(), (U8{250, 0, 7}));
  EXPECT_EQ(sign(bytes).to_vector<uint8_t>(), (U8{1, 0, 1}));
  EXPECT_EQ(clamp(bytes, -3, 100).to_vector<uint8_t>(), (U8{100, 0, 7}));
  const NoGrad no_grad;
  add_(bytes, bytes);
  EXPECT_EQ(bytes.to_vector<uint8_t>(), (U8{244, 0, 14}));
}

// 2^53 + 1 is no f64: nothing may pass through one.
TEST(Integers, OfI64AreExactBeyond2To53) {
  const int64_t large = (int64_t(1) << 53) + 1;
  const Tensor x = of<int64_t>({large, -large, INT64_MAX});
  EXPECT_EQ((x + 2).to_vector<int64_t>(), (I64{large + 2, -large + 2, INT64_MIN + 1}));
  EXPECT_EQ((x * 3).to_vector<int64_t>(), (I64{large * 3, -large * 3, INT64_MAX - 2}));
  EXPECT_EQ(floor_divide(x, 2).to_vector<int64_t>(),
            (I64{large / 2, -large / 2 - 1, INT64_MAX / 2}));
  EXPECT_EQ(remainder(x, 2).to_vector<int64_t>(), (I64{1, 1, 1}));
  EXPECT_EQ(sum(x).item<int64_t>(), INT64_MAX);
  EXPECT_EQ(max(x).item<int64_t>(), INT64_MAX);
  EXPECT_EQ(cumsum(x, 0).to_vector<int64_t>(), (I64{large, 0, INT64_MAX}));
  EXPECT_EQ(greater(x, 1).to_vector<bool>(), (std::vector<bool>{true, false, true}));
}

TEST(Integers, DivideDownwards) {
  const Tensor a = of<int32_t>({7, -7, 7, -7, 5, 0}), b = of<int32_t>({2, 2, -2, -2, 0, 3});
  const Tensor quotient = floor_divide(a, b), rest = remainder(a, b);
  EXPECT_EQ(quotient.to_vector<int32_t>(), (I32{3, -4, -4, 3, 0, 0}));
  EXPECT_EQ(rest.to_vector<int32_t>(), (I32{1, 1, -1, -1, 0, 0}));
  EXPECT_EQ(fmod(a, b).to_vector<int32_t>(), (I32{1, -1, 1, -1, 0, 0}));
}

TEST(Integers, AddUpInI64) {
  const Tensor bytes = Tensor::full({300}, 255, {.dtype = DType::u8});
  EXPECT_EQ(sum(bytes).dtype(), DType::i64);
  EXPECT_EQ(sum(bytes).item<int64_t>(), 300 * 255);
  EXPECT_EQ(prod(of<int32_t>({high, high})).item<int64_t>(), int64_t(high) * high);
  const Tensor flags = greater(of<int32_t>({3, 1, 4, 1}), 2);
  EXPECT_EQ(sum(flags).item<int64_t>(), 2);
  EXPECT_EQ(cumsum(flags, 0).to_vector<int64_t>(), (I64{1, 1, 2, 2}));
  EXPECT_EQ(cumsum(of<uint8_t>({255, 255}), 0, {.exclusive = true}).to_vector<int64_t>(),
            (I64{0, 255}));
  EXPECT_EQ(cumprod(of<int32_t>({high, 2}), 0, {.reverse = true}).to_vector<int64_t>(),
            (I64{2 * int64_t(high), 2}));
  const Tensor none = Tensor::zeros({0, 2}, {.dtype = DType::i32});
  EXPECT_EQ(sum(none, {.dims = {0}}).to_vector<int64_t>(), (I64{0, 0}));
  EXPECT_EQ(prod(none, {.dims = {0}}).to_vector<int64_t>(), (I64{1, 1}));
  EXPECT_EQ((none + none).shape(), (Shape{0, 2}));
  EXPECT_EQ(cumsum(none, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(count_nonzero(of<uint8_t>({0, 9, 1})).item<int64_t>(), 2);
}

TEST(Integers, HaveExtremesInTheirDtype) {
  const Tensor bytes = of<uint8_t>({7, 200, 200, 3});
  EXPECT_EQ(max(bytes).item<uint8_t>(), 200);
  EXPECT_EQ(min(bytes).item<uint8_t>(), 3);
  EXPECT_EQ(argmax(bytes).item<int64_t>(), 1);
  const Extremes smallest = min_with_indices(bytes, {.dim = 0, .keepdim = true});
  EXPECT_EQ(smallest.values.to_vector<uint8_t>(), (U8{3}));
  EXPECT_EQ(smallest.indices.to_vector<int64_t>(), (I64{3}));
  EXPECT_EQ(maximum(bytes, of<uint8_t>({9, 9, 255, 0})).to_vector<uint8_t>(), (U8{9, 200, 255, 3}));
  expect_error<ShapeError>([] { return max(Tensor::zeros({0}, {.dtype = DType::i64})); },
                           "[max] no elements to choose from in (0,)");
  expect_error<ShapeError>([] { return min(Tensor::zeros({2}, {.dtype = DType::boolean})); },
                           "[min] x (2,) is boolean, wanted numbers; take all");
}

TEST(Integers, TakeScalarsThatTheyHold) {
  struct Case {
    DType dtype;
    double scalar;
    const char* text;
  };
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&, double)>>> functions{
      {"add", [](const Tensor& x, double c) { return c + x; }},
      {"subtract", [](const Tensor& x, double c) { return x - c; }},
      {"subtract", [](const Tensor& x, double c) { return c - x; }},
      {"multiply", [](const Tensor& x, double c) { return x * c; }},
      {"affine", [](const Tensor& x, double c) { return affine(x, 1, c); }},
      {"affine", [](const Tensor& x, double c) { return affine(x, c, 1); }},
      {"pow", [](const Tensor& x, double c) { return pow(x, c); }},
      {"floor_divide", [](const Tensor& x, double c) { return floor_divide(x, c); }},
      {"remainder", [](const Tensor& x, double c) { return remainder(x, c); }},
      {"fmod", [](const Tensor& x, double c) { return fmod(x, c); }},
      {"equal", [](const Tensor& x, double c) { return equal(x, c); }},
      {"less", [](const Tensor& x, double c) { return less(x, c); }},
      {"greater_equal", [](const Tensor& x, double c) { return greater_equal(x, c); }},
      {"masked_fill", [](const Tensor& x, double c) { return masked_fill(x, equal(x, x), c); }},
  };
  for (const Case& test : {Case{DType::i32, 1.5, "value 1.5 does not fit i32, which holds"},
                           Case{DType::u8, 300, "value 300 does not fit u8, which holds integers"},
                           Case{DType::i64, 0x1p63, "does not fit i64, which holds integers"}}) {
    const Tensor x = Tensor::ones({3}, {.dtype = test.dtype});
    for (const auto& [name, function] : functions) {
      expect_error<ShapeError>([&] { return function(x, test.scalar); },
                               std::string("[") + name + "] value ");
      expect_error<ShapeError>([&] { return function(x, test.scalar); }, test.text);
      EXPECT_NO_THROW(function(x, 3)) << name;
    }
  }
}

TEST(Integers, AreRefusedWhereFloatsAreMeant) {
  const Tensor i64 = of<int64_t>({3, 1}), flags = equal(i64, 3);
  expect_error<ShapeError>([&] { return i64 / i64; },
                           "[divide] a (2,) is i64, wanted a floating dtype; convert it with "
                           "to(DType::f32), or take floor_divide for whole quotients");
  expect_error<ShapeError>([&] { return i64 / 2; }, "or take floor_divide");
  expect_error<ShapeError>([&] { return 2 / i64; }, "[divide] b (2,) is i64, wanted");
  expect_error<ShapeError>([&] { return mean(i64); },
                           "[mean] x (2,) is i64, wanted a floating dtype; convert it with "
                           "to(DType::f32)");
  expect_error<ShapeError>([&] { return sqrt(i64); }, "[sqrt] x (2,) is i64");
  expect_error<ShapeError>([&] { return linear_recurrence(i64, i64, 0); },
                           "[linear_recurrence] terms (2,) is i64");
  expect_error<ShapeError>([&] { return flags + flags; },
                           "[add] a (2,) is boolean, wanted numbers; convert it with to(dtype)");
  expect_error<ShapeError>([&] { return argmax(flags); }, "[argmax] x (2,) is boolean");
  expect_error<ShapeError>([&] { return pow(i64, -1); },
                           "[pow] the exponent of integers is -1, wanted 0 or more");
  expect_error<ShapeError>([&] { return floor_divide(i64, 0); }, "[floor_divide] the divisor is 0");
  const Tensor f32 = Tensor::ones({2});
  expect_error<ShapeError>([&] { return floor_divide(f32, f32); },
                           "[floor_divide] a (2,) is f32, wanted integers; of floats write "
                           "floor(a / b)");
  expect_error<ShapeError>(
      [&] {
        return i64 + of<int32_t>({1, 2});
      },
      "[add] a (2,) is i64, b (2,) is i32; dtypes must be equal");
}

TEST(Integers, HaveNoGradient) {
  Tensor x = of<int64_t>({3, 1});
  expect_error<ShapeError>([&] { return x.set_requires_grad(true); },
                           "[set_requires_grad] a i64 tensor has no gradient");
  EXPECT_FALSE((x * 2 + 1).requires_grad());
  Tensor f32 = Tensor::ones({2});
  f32.set_requires_grad(true);
  EXPECT_FALSE(sum(f32.to(DType::i64)).requires_grad());
}

TEST(Comparisons, TakeScalars) {
  const Tensor x = Tensor::from<float>({1, 2, 3}, {3});
  using B = std::vector<bool>;
  EXPECT_EQ(equal(x, 2).to_vector<bool>(), (B{false, true, false}));
  EXPECT_EQ(not_equal(x, 2).to_vector<bool>(), (B{true, false, true}));
  EXPECT_EQ(less(x, 2).to_vector<bool>(), (B{true, false, false}));
  EXPECT_EQ(less_equal(x, 2).to_vector<bool>(), (B{true, true, false}));
  EXPECT_EQ(greater(x, 2).to_vector<bool>(), (B{false, false, true}));
  EXPECT_EQ(greater_equal(x, 2).to_vector<bool>(), (B{false, true, true}));
  EXPECT_EQ(equal(equal(x, 2), 1).to_vector<bool>(), (B{false, true, false}));
  expect_error<ShapeError>([&] { return less(x.to(DType::f16), 1e6); },
                           "[less] value 1000000 does not fit f16");
}

}  // namespace
}  // namespace adret
