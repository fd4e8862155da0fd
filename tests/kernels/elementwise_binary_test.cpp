// Functions of two operands and their broadcasting, element by element from the definition.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using kernels::BinaryOp;
using Values = std::vector<double>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

// Place in an operand of the element at `index` of a tensor of shape `shape` it broadcasts to.
size_t broadcast_place(const Shape& operand, const Shape& shape, int64_t index) {
  int64_t place = 0, step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const int64_t at = index % shape[d];
    index /= shape[d];
    const int own = d - (shape.rank() - operand.rank());
    if (own < 0) continue;
    place += (operand[own] == 1 ? 0 : at) * step;
    step *= operand[own];
  }
  return size_t(place);
}

double apply(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add: return a + b;
    case BinaryOp::subtract: return a - b;
    case BinaryOp::multiply: return a * b;
    case BinaryOp::divide: return a / b;
    case BinaryOp::maximum: return std::isnan(a) || std::isnan(b) ? nan : std::max(a, b);
    case BinaryOp::minimum: return std::isnan(a) || std::isnan(b) ? nan : std::min(a, b);
    case BinaryOp::power: return std::pow(a, b);
    case BinaryOp::atan2: return std::atan2(a, b);
    case BinaryOp::hypot: return std::hypot(a, b);
    case BinaryOp::fmod: return std::fmod(a, b);
    case BinaryOp::remainder: return a - b * std::floor(a / b);
    case BinaryOp::equal: return a == b;
    case BinaryOp::not_equal: return a != b;
    case BinaryOp::less: return a < b;
    case BinaryOp::less_equal: return a <= b;
    case BinaryOp::greater: return a > b;
    case BinaryOp::greater_equal: return a >= b;
  }
  return nan;
}

constexpr BinaryOp arithmetic[] = {BinaryOp::add,    BinaryOp::subtract, BinaryOp::multiply,
                                   BinaryOp::divide, BinaryOp::maximum,  BinaryOp::minimum,
                                   BinaryOp::power,  BinaryOp::atan2,    BinaryOp::hypot,
                                   BinaryOp::fmod,   BinaryOp::remainder};
constexpr BinaryOp comparisons[] = {BinaryOp::equal,   BinaryOp::not_equal,
                                    BinaryOp::less,    BinaryOp::less_equal,
                                    BinaryOp::greater, BinaryOp::greater_equal};

struct Shapes {
  Shape a, b;
};
const Shapes shapes[] = {
    {{}, {}},                      // scalars
    {{5}, {5}},                    // equal
    {{40, 1000}, {40, 1000}},      // equal, several chunks
    {{40, 1000}, {}},              // a scalar
    {{}, {40, 1000}},              //
    {{64, 10}, {10}},              // a bias
    {{10}, {64, 10}},              //
    {{64, 10}, {64, 1}},           // a column
    {{3, 1}, {1, 4}},              // both stretch
    {{2, 1, 3, 1}, {4, 1, 5}},     // both stretch in turn
    {{2, 3, 4, 5, 6, 1}, {6, 1}},  // rank 6
    {{2, 3, 4}, {1, 3, 1}},        // the middle
    {{0, 4}, {4}},                 // nothing
    {{1, 1}, {1}},                 // only ones
    {{300, 1, 7}, {300, 70, 7}},   // chunks that end within rows
    {{64, 1, 16}, {9, 16}},        // rows that are whole vectors
    {{5, 7, 16}, {7, 1}},          // a number for each row of vectors
    {{4, 6, 8}, {6, 8}},           // a matrix for each
};

template <class T>
void expect_matches(BinaryOp op, const Shapes& test) {
  const Shape shape = broadcast("test", test.a, test.b);
  Values a = random_values(test.a.numel(), 1), b = random_values(test.b.numel(), 2);
  if (op == BinaryOp::power) {
    for (double& v : a) v = std::abs(v);  // real powers
  }
  Values expected;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    expected.push_back(
        apply(op, a[broadcast_place(test.a, shape, i)], b[broadcast_place(test.b, shape, i)]));
  }
  const Guarded<T> left(test.a, a), right(test.b, b), out(shape);
  run(kernels::Binary{.a = left, .b = right, .y = out, .op = op});
  // One rounding; the C library's pow is good to 1 ulp or so, CUDA's powf to 4 (CUDA Programming
  // Guide, mathematical functions).
  const double epsilon = double(std::numeric_limits<T>::epsilon());
  const bool powf = op == BinaryOp::power && test_device() == TestDevice::cuda;
  // The expectation of remainder is itself rounded, by the size of a.
  const double absolute = op == BinaryOp::remainder ? 2 * epsilon : 0;
  expect_close(out.values(), expected, {.relative = (powf ? 4 : 2) * epsilon, .absolute = absolute},
               std::string(kernels::to_string(op)) + " " + to_string(test.a) + to_string(test.b));
  EXPECT_TRUE(out.guards_intact());
}

TEST(Binary, MatchesTheDefinitionForEveryBroadcast) {
  for (const Shapes& test : shapes) {
    for (BinaryOp op : arithmetic) {
      expect_matches<float>(op, test);
      expect_matches<double>(op, test);
    }
  }
}

// All pairs of numbers of every size and sign, with what floats have beside numbers.
template <class T>
void expect_angles(double epsilon, int least, int most) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  Values numbers = {0.0, -0.0, inf, -inf, nan};
  for (int e = least; e <= most; ++e) {
    for (const double m : {1.0, -1.25, 1.625}) numbers.push_back(std::ldexp(m, e));
  }
  Values y, x, expected;
  for (const double a : numbers) {
    for (const double b : numbers) {
      const double angle = std::atan2(a, b);
      if (std::abs(angle) < std::ldexp(1.0, least) && angle != 0) continue;
      y.push_back(a);
      x.push_back(b);
      expected.push_back(angle);
    }
  }
  const Shape shape{int64_t(y.size())};
  const Guarded<T> left(shape, y), right(shape, x), out(shape);
  run(kernels::Binary{.a = left, .b = right, .y = out, .op = BinaryOp::atan2});
  const Values found = out.values();
  for (size_t i = 0; i < y.size(); ++i) {
    const auto text = [&] { return std::to_string(y[i]) + " " + std::to_string(x[i]); };
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(found[i])) << text();
    } else {
      ASSERT_NEAR(found[i], expected[i], 2 * epsilon * std::abs(expected[i])) << text();
      ASSERT_EQ(std::signbit(found[i]), std::signbit(expected[i])) << text();
    }
  }
}

TEST(Binary, FindsAnglesOfAllPairs) {
  expect_angles<float>(0x1p-23, -126, 126);
  expect_angles<bfloat16>(0x1p-7, -126, 126);
  expect_angles<float16>(0x1p-10, -14, 14);
}

// The distance from the result that is rounded once; CUDA's atan2f has 3 ulp (CUDA Programming
// Guide, mathematical functions).
TEST(Binary, FindsAnglesWithinThreeUlp) {
  const int64_t n = 100'000;
  Values y = random_values(n, 9), x = random_values(n, 10);
  const Guarded<float> left({n}, y), right({n}, x), out({n});
  run(kernels::Binary{.a = left, .b = right, .y = out, .op = BinaryOp::atan2});
  y = left.values();
  x = right.values();
  const Values found = out.values();
  for (size_t i = 0; i < y.size(); ++i) {
    const float angle = float(std::atan2(y[i], x[i]));
    const double ulp = double(std::nextafter(std::abs(angle), INFINITY)) - std::abs(angle);
    ASSERT_LE(std::abs(found[i] - double(angle)), 3 * ulp) << y[i] << " " << x[i];
  }
}

// Chunks and broadcast rows end anywhere: the rest of a run gives the bits of its vectors.
TEST(Binary, GivesAnElementTheSameBitsAtAnyPlace) {
  for (const BinaryOp op : {BinaryOp::atan2, BinaryOp::divide, BinaryOp::maximum}) {
    const Values a = random_values(5, 11), b = random_values(5, 12);
    const auto found = [&](int64_t n, size_t i) {
      const Guarded<float> left({n}, Values(size_t(n), a[i])), right({n}, Values(size_t(n), b[i])),
          out({n});
      run(kernels::Binary{.a = left, .b = right, .y = out, .op = op});
      return out.values();
    };
    for (size_t i = 0; i < a.size(); ++i) {
      const double alone = found(1, i)[0];
      for (const int64_t n : {3, 8, 17, 70}) EXPECT_EQ(found(n, i), Values(size_t(n), alone));
    }
  }
}

template <class T>
std::vector<T> binary(BinaryOp op, const std::vector<T>& a, const std::vector<T>& b) {
  const Tensor left = Tensor::from(a, {int64_t(a.size())}),
               right = Tensor::from(b, {int64_t(b.size())});
  Tensor y = Tensor::empty(left.shape(), {.dtype = dtype_of<T>});
  run(kernels::Binary{.a = left, .b = right, .y = y, .op = op});
  return y.template to_vector<T>();
}

TEST(Binary, KeepsNanInMaximumAndMinimum) {
  const std::vector<double> a{nan, 1, nan, inf}, b{1, nan, nan, -inf};
  expect_close(binary<double>(BinaryOp::maximum, a, b), {nan, nan, nan, inf}, {}, "maximum");
  expect_close(binary<double>(BinaryOp::minimum, a, b), {nan, nan, nan, -inf}, {}, "minimum");
}

TEST(Binary, ComputesIntegersExactlyAndWithoutTraps) {
  using I = std::vector<int64_t>;
  constexpr int64_t low = INT64_MIN, high = INT64_MAX;
  const int64_t large = (int64_t(1) << 53) + 1;  // not an f64
  EXPECT_EQ(binary<int64_t>(BinaryOp::add, {large, high}, {1, 1}), (I{large + 1, low}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::subtract, {large, low}, {1, 1}), (I{large - 1, high}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::multiply, {large, 3}, {3, -4}), (I{large * 3, -12}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::divide, {7, -7, 5, low}, {2, 2, 0, -1}), (I{3, -4, 0, low}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::maximum, {large, -5}, {large - 1, 3}), (I{large, 3}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::minimum, {large, -5}, {large - 1, 3}), (I{large - 1, -5}));
  EXPECT_EQ(
      binary<int64_t>(BinaryOp::power, {3, -2, 0, 5, 2, -1, 1, 0}, {4, 3, 0, 0, -1, -3, -9, -1}),
      (I{81, -8, 1, 1, 0, -1, 1, 0}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::fmod, {7, -7, 5, low, 7}, {3, 3, 0, -1, -3}),
            (I{1, -1, 0, 0, 1}));
  EXPECT_EQ(binary<int64_t>(BinaryOp::remainder, {7, -7, 5, low, 7}, {3, 3, 0, -1, -3}),
            (I{1, 2, 0, 0, -2}));
  using J = std::vector<int32_t>;
  EXPECT_EQ(binary<int32_t>(BinaryOp::multiply, {65536, INT32_MAX}, {65536, 2}), (J{0, -2}));
  EXPECT_EQ(binary<int32_t>(BinaryOp::divide, {INT32_MIN, 9}, {-1, -2}), (J{INT32_MIN, -5}));
}

TEST(Binary, ComparesEveryDtype) {
  const std::vector<float> a{0, 1, 2, 1, 0, 0}, b{0, 0, 2, 2, 1, 0};
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64,
                      DType::u8, DType::boolean}) {
    Tensor left = Tensor::empty({6}, {.dtype = dtype}),
           right = Tensor::empty({6}, {.dtype = dtype});
    run(kernels::Cast{.x = Tensor::from(a, {6}), .y = left});
    run(kernels::Cast{.x = Tensor::from(b, {6}), .y = right});
    const bool is_boolean = dtype == DType::boolean;
    for (BinaryOp op : comparisons) {
      Tensor y = Tensor::empty({6}, {.dtype = DType::boolean});
      run(kernels::Binary{.a = left, .b = right, .y = y, .op = op});
      std::vector<bool> expected;
      for (size_t i = 0; i < 6; ++i) {
        const double x = is_boolean ? a[i] != 0 : a[i], z = is_boolean ? b[i] != 0 : b[i];
        expected.push_back(apply(op, x, z) != 0);
      }
      EXPECT_EQ(y.to_vector<bool>(), expected) << name(dtype) << " " << kernels::to_string(op);
    }
  }
}

TEST(Binary, ComparesWithBroadcastingAndNan) {
  const Tensor a = Tensor::from<float>({1, 2, NAN, 4, 5, 6}, {2, 3}),
               b = Tensor::from<float>({2, 5}, {2, 1});
  Tensor y = Tensor::empty({2, 3}, {.dtype = DType::boolean});
  run(kernels::Binary{.a = a, .b = b, .y = y, .op = BinaryOp::greater_equal});
  EXPECT_EQ(y.to_vector<bool>(), (std::vector<bool>{false, true, false, false, true, true}));
  run(kernels::Binary{.a = a, .b = b, .y = y, .op = BinaryOp::not_equal});
  EXPECT_EQ(y.to_vector<bool>(), (std::vector<bool>{true, false, true, true, false, true}));
}

TEST(Binary, WritesOverAnOperandOfItsOwnShape) {
  const Values a = random_values(40'000, 3), b = random_values(40'000, 4);
  Guarded<float> left({40'000}, a), right({40'000}, b);
  run(kernels::Binary{.a = left, .b = right, .y = left, .op = BinaryOp::add});
  run(kernels::Binary{.a = left, .b = right, .y = right, .op = BinaryOp::subtract});
  Values sum, difference;
  for (size_t i = 0; i < a.size(); ++i) {
    sum.push_back(float(a[i] + b[i]));
    difference.push_back(float(sum[i] - b[i]));
  }
  EXPECT_EQ(left.values(), sum);
  EXPECT_EQ(right.values(), difference);
}

TEST(Binary, GivesTheSameBitsForAnyNumberOfThreads) {
  const Guarded<float> a({300, 1, 70}, random_values(21'000, 5)),
      b({300, 7, 70}, random_values(147'000, 6));
  expect_same_for_any_threads([&] {
    const Guarded<float> y({300, 7, 70});
    run(kernels::Binary{.a = a, .b = b, .y = y, .op = BinaryOp::multiply});
    return y.values();
  });
}

TEST(Binary, DividesWithRemainderAtTheEdges) {
  const std::vector<float> a{5, -5, 5, 0, INFINITY, 3, NAN}, b{INFINITY, INFINITY, 0, 3, 2, -3, 1};
  const auto fmod = binary<float>(BinaryOp::fmod, a, b);
  expect_close({fmod.begin(), fmod.end()}, {5, -5, nan, 0, nan, 0, nan}, {}, "fmod");
  const auto rest = binary<float>(BinaryOp::remainder, a, b);
  expect_close({rest.begin(), rest.end()}, {5, inf, nan, 0, nan, 0, nan}, {}, "remainder");
}

// -- select ------------------------------------------------------------------------------------

TEST(Select, ChoosesByTheConditionForEveryBroadcast) {
  struct Case {
    Shape condition, a, b;
  };
  const Case cases[] = {
      {{}, {}, {}},
      {{5}, {5}, {5}},
      {{40'000}, {40'000}, {40'000}},   // several chunks
      {{33, 1'001}, {33, 1'001}, {}},   // a scalar
      {{33, 1}, {33, 1'008}, {1'008}},  // a row and a column
      {{1'008}, {33, 1}, {33, 1'008}},  //
      {{2, 1, 3}, {4, 1}, {1, 1, 3}},   // all stretch
      {{7, 5}, {2, 7, 5}, {2, 1, 1}},   //
      {{0, 4}, {4}, {1, 4}},            // nothing
      {{64, 1, 16}, {9, 16}, {9, 1}},   // rows that are whole vectors
  };
  for (const Case& test : cases) {
    const Shape shape = broadcast("test", test.condition, broadcast("test", test.a, test.b));
    std::vector<bool> chosen;
    for (int64_t i = 0; i < test.condition.numel(); ++i) chosen.push_back(i * 7 % 5 < 2);
    std::vector<uint8_t> bytes(chosen.begin(), chosen.end());
    Tensor condition = Tensor::empty(test.condition, {.dtype = DType::boolean});
    run(kernels::Cast{.x = Tensor::from(bytes, test.condition), .y = condition});
    const Values a = random_values(test.a.numel(), 7), b = random_values(test.b.numel(), 8);
    const Guarded<float> left(test.a, a), right(test.b, b), out(shape);
    run(kernels::Select{.condition = condition, .a = left, .b = right, .y = out});
    Values expected;
    for (int64_t i = 0; i < shape.numel(); ++i) {
      expected.push_back(chosen[broadcast_place(test.condition, shape, i)]
                             ? a[broadcast_place(test.a, shape, i)]
                             : b[broadcast_place(test.b, shape, i)]);
    }
    EXPECT_EQ(out.values(), expected) << to_string(shape);
    EXPECT_TRUE(out.guards_intact());
  }
}

TEST(Select, MovesEveryDtype) {
  const Tensor condition = Tensor::empty({3}, {.dtype = DType::boolean});
  run(kernels::Cast{.x = Tensor::from<uint8_t>({1, 0, 1}, {3}), .y = condition});
  for (DType dtype : {DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    Tensor a = Tensor::empty({3}, {.dtype = dtype}), b = Tensor::empty({}, {.dtype = dtype}),
           y = Tensor::empty({3}, {.dtype = dtype}), result = Tensor::empty({3});
    run(kernels::Cast{.x = Tensor::from<float>({1, 2, 3}, {3}), .y = a});
    run(kernels::Fill{.y = b, .value = 9});
    run(kernels::Select{.condition = condition, .a = a, .b = b, .y = y});
    run(kernels::Cast{.x = y, .y = result});
    EXPECT_EQ(result.to_vector<float>(), (std::vector<float>{1, 9, 3})) << name(dtype);
  }
}

TEST(Broadcast, RepeatsTheElementsOfAnyDtype) {
  struct Case {
    Shape x, y;
  };
  const Case cases[] = {
      {{}, {3, 4}},    {{4}, {3, 4}},    {{3, 1}, {3, 4}}, {{2, 1, 3}, {2, 5, 3}},
      {{1}, {70'000}}, {{3, 4}, {3, 4}}, {{1, 4}, {0, 4}}, {{1, 1, 5, 1}, {2, 3, 5, 7}}};
  for (const Case& test : cases) {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8}) {
      Values values, expected;
      for (int64_t i = 0; i < test.x.numel(); ++i) values.push_back(double(i + 1));
      for (int64_t i = 0; i < test.y.numel(); ++i) {
        expected.push_back(values[broadcast_place(test.x, test.y, i)]);
      }
      Tensor x = Tensor::empty(test.x, {.dtype = dtype}),
             y = Tensor::empty(test.y, {.dtype = dtype});
      Tensor result = Tensor::empty(test.y, {.dtype = DType::f64});
      run(kernels::Cast{.x = Tensor::from(values, test.x), .y = x});
      run(kernels::Broadcast{.x = x, .y = y});
      run(kernels::Cast{.x = y, .y = result});
      EXPECT_EQ(result.to_vector<double>(), expected) << to_string(test.x) << to_string(test.y);
    }
  }
}

}  // namespace
}  // namespace adret
