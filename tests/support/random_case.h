// Property tests: random operands, what loops over index tuples make of them, and gradients along
// one random direction.
#pragma once

#include <adret/core/tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/gradients.h"

namespace adret::test {

using Inputs = std::vector<Tensor>;
using Index = std::vector<int64_t>;

// What a case is made of.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  int64_t integer(int64_t low, int64_t high);  // both included
  bool chance(double p = 0.5);
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[size_t(integer(0, int64_t(choices.size()) - 1))];
  }
  double number(double low, double high);  // (k + 1/2) / 64: never a multiple of 1/64

  // Sizes are mostly 1 to 7, at times 0.
  int64_t size() { return chance(0.06) ? 0 : integer(1, 7); }
  Shape shape(int least_rank, int most_rank);
  // What broadcasts to `full`: some sizes 1, some leading dimensions left out.
  Shape stretched_to(const Shape& full);
  int dim(const Shape& shape);  // counted from either end
  std::vector<int> dims(const Shape& shape);

  DType wide() { return chance() ? DType::f64 : DType::f32; }
  Tensor numbers(const Shape& shape, DType dtype = DType::f64, double low = -2, double high = 2);
  Tensor distinct(const Shape& shape, DType dtype = DType::f64);  // no two are equal
  Tensor integers(const Shape& shape, int64_t low, int64_t high, DType dtype = DType::i64);
  Tensor truths(const Shape& shape, double p = 0.5);
  // Of any dtype, with many equal elements.
  Tensor anything(const Shape& shape);

 private:
  std::mt19937 random_;
};

// Calls f(draw) for the seeds 0..count-1 until one fails; the failure names function and seed.
// tools/list_functions takes the first argument, or the name that begins a table's row, for the
// function that is proved.
template <class F>
void for_random_cases(const char* function, F f, uint32_t count = 200) {
  for (uint32_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("{}, seed {}", function, seed));
    Draw draw(seed);
    f(draw);
  }
}

// -- loops --------------------------------------------------------------------

// Elements by their indices, in f64 whatever the tensor's dtype.
struct Array {
  Shape shape;
  std::vector<double> values;

  Array(const Tensor& tensor);
  explicit Array(const Shape& shape, double value = 0)
      : shape(shape), values(size_t(shape.numel()), value) {}
  // An index of more dimensions, or beyond a size of 1, is that of a broadcast.
  double& at(const Index& index) { return values[place(index)]; }
  double at(const Index& index) const { return values[place(index)]; }

 private:
  size_t place(const Index& index) const;
};

// Every index of a shape, the last dimension running first.
std::vector<Index> indices_of(const Shape& shape);

// The array whose element at `index` is f(index).
template <class F>
Array tabulate(const Shape& shape, F f) {
  Array array(shape);
  const std::vector<Index> all = indices_of(shape);
  for (size_t i = 0; i < all.size(); ++i) array.values[i] = f(all[i]);
  return array;
}

inline Index with(Index index, int dim, int64_t place) {
  index[size_t(dim)] = place;
  return index;
}
inline Index without(Index index, int dim) {
  index.erase(index.begin() + dim);
  return index;
}
inline Index inserted(Index index, int dim, int64_t place) {
  index.insert(index.begin() + dim, place);
  return index;
}

// Shape and values; of floats to within `tolerance`, relative and absolute, by default 1e-11 and
// 1e-5 for f32.
void expect_array(const Tensor& actual, const Array& expected, double tolerance = 0);
// The very same elements.
void expect_same(const Tensor& actual, const Tensor& expected);

// -- gradients ----------------------------------------------------------------

// The slope of a random sum of f's elements beside the inputs, along a random direction of all f64
// ones, by the backward pass and by central differences. Inputs of other dtypes are constants.
void expect_slope(const TestFunction& f, const Inputs& inputs, Draw& draw, double tolerance = 1e-6);

}  // namespace adret::test
