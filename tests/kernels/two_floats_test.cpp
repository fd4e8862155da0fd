// fmod, remainder and hypot of floats of every size, against the C library.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <type_traits>

#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using kernels::BinaryOp;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class T>
Values binary(BinaryOp op, const Values& a, const Values& b) {
  const Shape shape{int64_t(a.size())};
  const Guarded<T> left(shape, a), right(shape, b), out(shape);
  run(kernels::Binary{.a = left, .b = right, .y = out, .op = op});
  EXPECT_TRUE(out.guards_intact());
  return out.values();
}

template <class T>
struct Pairs {
  Values a, b;
  void add(T x, T y) {
    a.push_back(double(x));
    b.push_back(double(y));
  }
};

// Pairs of any bits, with quotients of some places, close to whole numbers of any size, and of
// what floats have beside numbers.
template <class T>
Pairs<T> pairs_of_every_kind(int64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::mt19937_64 random(7);
  const auto any = [&] { return std::bit_cast<T>(Bits(random())); };
  const auto near_one = [&] { return T(1) + T(random() >> 11) * T(0x1p-53); };
  Pairs<T> pairs;
  for (int64_t i = 0; i < count; ++i) {
    pairs.add(any(), any());
    const int exponent = int(random() % 60) - 5;
    pairs.add(std::ldexp(near_one(), exponent), random() % 2 ? near_one() : -near_one());
    const T b = near_one(), whole = T(random() >> (64 - exponent % 30 * (exponent > 0) - 1));
    const T multiple = whole * b * (random() % 2 ? T(1) : T(-1));
    pairs.add(multiple, b);
    pairs.add(std::nextafter(multiple, T(0)), b);
    pairs.add(std::nextafter(multiple, 2 * multiple), -b);
  }
  const T least = std::numeric_limits<T>::denorm_min(), most = std::numeric_limits<T>::max();
  const T special[] = {0, -T(0), 1, -3, least, -5 * least, most, T(inf), -T(inf), T(nan)};
  for (const T a : special) {
    for (const T b : special) pairs.add(a, b);
  }
  return pairs;
}

double remainder_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

template <class T>
void expect_rests() {
  const Pairs<T> pairs = pairs_of_every_kind<T>(20'000);
  const Values rests = binary<T>(BinaryOp::fmod, pairs.a, pairs.b),
               floored = binary<T>(BinaryOp::remainder, pairs.a, pairs.b);
  const auto expect_same = [&](size_t i, double found, double expected) {
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << pairs.a[i] << " " << pairs.b[i];
    } else {
      ASSERT_EQ(found, expected) << pairs.a[i] << " " << pairs.b[i];
      ASSERT_EQ(std::signbit(found), std::signbit(expected)) << pairs.a[i] << " " << pairs.b[i];
    }
  };
  for (size_t i = 0; i < rests.size(); ++i) {
    expect_same(i, rests[i], std::fmod(pairs.a[i], pairs.b[i]));
    expect_same(i, floored[i], double(T(remainder_of(pairs.a[i], pairs.b[i]))));
  }
}

TEST(TwoFloats, RestsAreExact) {
  expect_rests<float>();
  expect_rests<double>();
}

// Within two units in the last place, the least being those of subnormal numbers.
template <class T>
void expect_lengths(int least, int most) {
  Values numbers = {0.0, -0.0, inf, -inf, nan};
  for (int e = least; e <= most; e += std::numeric_limits<T>::digits / 8) {
    for (const double m : {1.0, -1.25, 1.625}) numbers.push_back(double(T(std::ldexp(m, e))));
  }
  Values a, b;
  for (const double x : numbers) {
    a.insert(a.end(), numbers.size(), x);
    b.insert(b.end(), numbers.begin(), numbers.end());
  }
  const Values found = binary<T>(BinaryOp::hypot, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const T expected = T(std::hypot(a[i], b[i]));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found[i])) << a[i] << " " << b[i];
    } else if (std::isinf(expected)) {
      ASSERT_EQ(found[i], inf) << a[i] << " " << b[i];
    } else {
      const double unit = double(std::nextafter(expected, T(inf))) - double(expected);
      ASSERT_NEAR(found[i], double(expected), 2 * unit) << a[i] << " " << b[i];
    }
  }
}

TEST(TwoFloats, LengthsOfPairsOfEverySize) {
  expect_lengths<float>(-149, 127);
  expect_lengths<double>(-1074, 1022);
}

}  // namespace
}  // namespace adret
