// Arithmetic, reductions and scans of integers: exactly as in 64 bits that wrap around.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/kernels/scan.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;
using kernels::BinaryOp;
using kernels::ReduceOp;
using Integers = std::vector<int64_t>;

// All bits random, with the ends of the range among them. An element off the alignment of vectors.
template <class T>
Tensor random_integers(const Shape& shape, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(size_t(shape.numel()) + 1);
  for (T& v : values) {
    const uint64_t word = random();
    v = T(word % 8 == 0   ? std::numeric_limits<T>::min()
          : word % 8 == 1 ? std::numeric_limits<T>::max()
          : word % 8 == 2 ? T(0)
                          : T(word >> 3));
  }
  const Tensor whole = Tensor::from(values, {int64_t(values.size())});
  return whole.alias(shape, sizeof(T));
}

template <class T>
Integers wide(const Tensor& x) {
  const std::vector<T> values = x.to_vector<T>();
  return {values.begin(), values.end()};
}

// -- two operands ------------------------------------------------------------------------------

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return int64_t(0 - uint64_t(a));
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

int64_t apply(BinaryOp op, int64_t a, int64_t b) {
  const auto x = uint64_t(a), y = uint64_t(b);
  switch (op) {
    case BinaryOp::add: return int64_t(x + y);
    case BinaryOp::subtract: return int64_t(x - y);
    case BinaryOp::multiply: return int64_t(x * y);
    case BinaryOp::divide: return floor_quotient(a, b);
    case BinaryOp::maximum: return std::max(a, b);
    case BinaryOp::minimum: return std::min(a, b);
    case BinaryOp::fmod: return b == 0 || b == -1 ? 0 : a % b;
    case BinaryOp::remainder: return b == 0 ? 0 : int64_t(x - uint64_t(floor_quotient(a, b)) * y);
    default: return 0;
  }
}

template <class T>
void expect_pairs() {
  const BinaryOp ops[] = {BinaryOp::add,    BinaryOp::subtract, BinaryOp::multiply,
                          BinaryOp::divide, BinaryOp::maximum,  BinaryOp::minimum,
                          BinaryOp::fmod,   BinaryOp::remainder};
  const Tensor a = random_integers<T>({40, 33}, 1), b = random_integers<T>({33}, 2);
  const Integers left = wide<T>(a), right = wide<T>(b);
  for (const BinaryOp op : ops) {
    const Tensor y = Tensor::empty(a.shape(), {.dtype = dtype_of<T>});
    run(kernels::Binary{.a = a, .b = b, .y = y, .op = op});
    Integers expected;
    for (size_t i = 0; i < left.size(); ++i) {
      expected.push_back(T(apply(op, left[i], right[i % right.size()])));
    }
    EXPECT_EQ(wide<T>(y), expected) << kernels::to_string(op) << " " << name(dtype_of<T>);
  }
}

TEST(Integers, OfTwoOperandsWrapAround) {
  expect_pairs<int32_t>();
  expect_pairs<int64_t>();
  expect_pairs<uint8_t>();
}

TEST(Integers, PowersOfBytesWrapAround) {
  const Tensor x = Tensor::from<uint8_t>({2, 3, 255, 0, 7}, {5}),
               exponent = Tensor::from<uint8_t>({7, 200, 2, 0, 1}, {5}),
               y = Tensor::empty({5}, {.dtype = DType::u8});
  run(kernels::Binary{.a = x, .b = exponent, .y = y, .op = BinaryOp::power});
  uint8_t power = 1;
  for (int i = 0; i < 200; ++i) power = uint8_t(power * 3);
  EXPECT_EQ(wide<uint8_t>(y), (Integers{128, power, 1, 1, 7}));
}

// -- reductions --------------------------------------------------------------------------------

struct Case {
  Shape shape;
  uint32_t dims;
};
const Case cases[] = {
    {{100'003}, 1},        // all, several chunks
    {{5, 40'001}, 2},      // long rows
    {{2'000, 6}, 1},       // narrow columns
    {{2'000, 48}, 1},      // columns in vectors
    {{9, 5'000}, 1},       // wide columns
    {{300, 257}, 1},       // one column more than a block
    {{4, 1'000, 12}, 2},   // the middle
    {{40, 10, 30, 8}, 5},  // every other
    {{8'000, 64}, 1},      // several chunks
    {{8'000, 3}, 2},       // many short rows
    {{600, 129}, 2},       // rows off the alignment of vectors
    {{7, 1, 5}, 2},        // nothing to do
    {{0, 3}, 1},           // of nothing
    {{}, 0},               // a scalar
};

int64_t merged(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::sum: return int64_t(uint64_t(a) + uint64_t(b));
    case ReduceOp::prod: return int64_t(uint64_t(a) * uint64_t(b));
    case ReduceOp::max: return std::max(a, b);
    default: return std::min(a, b);
  }
}

template <class T>
Integers reduced(ReduceOp op, const Tensor& x, uint32_t dims) {
  const Shape kept = kernels::kept_shape(x.shape(), dims);
  const bool total = op == ReduceOp::sum || op == ReduceOp::prod;
  Integers result(size_t(kept.numel()), op == ReduceOp::prod ? 1 : 0);
  std::vector<bool> any(result.size(), total);
  const Integers values = wide<T>(x);
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t rest = int64_t(i), place = 0, step = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      if (!(dims >> d & 1)) {
        place += rest % x.size(d) * step;
        step *= x.size(d);
      }
      rest /= x.size(d);
    }
    const auto at = size_t(place);
    result[at] = any[at] ? merged(op, result[at], values[i]) : values[i];
    any[at] = true;
  }
  return result;
}

template <class T>
void expect_reductions(std::initializer_list<ReduceOp> ops) {
  for (const auto& [shape, dims] : cases) {
    const Tensor x = random_integers<T>(shape, 3);
    for (const ReduceOp op : ops) {
      const bool total = op == ReduceOp::sum || op == ReduceOp::prod;
      if (!total && shape.numel() == 0) continue;
      const Tensor y = Tensor::empty(kernels::kept_shape(shape, dims),
                                     {.dtype = total ? DType::i64 : dtype_of<T>});
      run(kernels::Reduce{.x = x, .y = y, .dims = dims, .op = op});
      EXPECT_EQ(total ? wide<int64_t>(y) : wide<T>(y), reduced<T>(op, x, dims))
          << kernels::to_string(op) << " " << to_string(shape) << " " << name(dtype_of<T>);
    }
  }
}

TEST(Integers, ReductionsAreExactOrWrapAround) {
  using enum ReduceOp;
  expect_reductions<int32_t>({sum, prod, max, min});
  expect_reductions<int64_t>({sum, prod, max, min});
  expect_reductions<uint8_t>({sum, prod, max, min});
}

TEST(Integers, SumsCountTruths) {
  for (const auto& [shape, dims] : cases) {
    const Tensor bytes = random_integers<uint8_t>(shape, 4),
                 x = Tensor::empty(shape, {.dtype = DType::boolean});
    run(kernels::Cast{.x = bytes, .y = x});
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod}) {
      const Tensor y = Tensor::empty(kernels::kept_shape(shape, dims), {.dtype = DType::i64});
      run(kernels::Reduce{.x = x, .y = y, .dims = dims, .op = op});
      EXPECT_EQ(wide<int64_t>(y), reduced<bool>(op, x, dims)) << to_string(shape);
    }
  }
}

TEST(Integers, HaveNoMeansAndNorms) {
  ADRET_CPU_ONLY("the error is that of the CPU's kernel");
  const Tensor x = Tensor::empty({2}, {.dtype = DType::i32}),
               y = Tensor::empty({}, {.dtype = DType::i64});
  for (const ReduceOp op : {ReduceOp::mean, ReduceOp::norm}) {
    expect_error<ShapeError>(
        [&] {
          run(kernels::Reduce{.x = x, .y = y, .dims = 1, .op = op});
          return 0;
        },
        "[reduce] runs in floating dtypes, not in i32");
  }
}

// -- scans -------------------------------------------------------------------------------------

TEST(Integers, ScansWrapAround) {
  for (const auto& [shape, dim] : {Case{{7}, 0}, Case{{3'001}, 0}, Case{{5, 17}, 1},
                                   Case{{4'100, 33}, 0}, Case{{70, 100, 3}, 1}, Case{{2, 0}, 1}}) {
    const Tensor x = random_integers<int64_t>(shape, 5);
    const Integers values = wide<int64_t>(x);
    int64_t inner = 1;
    for (int d = int(dim) + 1; d < shape.rank(); ++d) inner *= shape[d];
    for (const bool product : {false, true}) {
      for (const bool reverse : {false, true}) {
        const Tensor y = Tensor::empty(shape, {.dtype = DType::i64});
        run_custom(kernels::Scan{.dim = int(dim), .reverse = reverse},
                   {product ? x : Tensor(), product ? Tensor() : x}, {y});
        Integers expected = values;
        const int64_t length = shape[int(dim)], step = reverse ? -inner : inner;
        for (int64_t i = 0; i < int64_t(values.size()); ++i) {
          const int64_t at = reverse ? int64_t(values.size()) - 1 - i : i;
          const int64_t place = at / inner % length;
          if (place == (reverse ? length - 1 : 0)) continue;
          expected[size_t(at)] = merged(product ? ReduceOp::prod : ReduceOp::sum,
                                        expected[size_t(at - step)], values[size_t(at)]);
        }
        EXPECT_EQ(wide<int64_t>(y), expected) << to_string(shape) << product << reverse;
      }
    }
  }
}

}  // namespace
}  // namespace adret
