// Random operands, arrays and slopes.
#include "tests/support/random_case.h"

#include <adret/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tests/support/close.h"

namespace adret::test {

int64_t Draw::integer(int64_t low, int64_t high) {
  return low + int64_t(random_() % uint64_t(high - low + 1));
}

bool Draw::chance(double p) { return double(random_()) < p * double(std::mt19937::max()); }

double Draw::number(double low, double high) {
  return (double(integer(int64_t(low * 64), int64_t(high * 64) - 1)) + 0.5) / 64;
}

Shape Draw::shape(int least_rank, int most_rank) {
  Shape shape;
  for (int64_t rank = integer(least_rank, most_rank); rank > 0; --rank) {
    const int64_t most = shape.numel() > 100 ? 2 : 7;
    shape = shape.inserted(0, std::min(size(), most));
  }
  return shape;
}

Shape Draw::stretched_to(const Shape& full) {
  Shape shape = full;
  for (int d = 0; d < full.rank(); ++d) {
    if (chance(0.3)) shape = shape.with(d, 1);
  }
  while (shape.rank() > 0 && chance(0.2)) shape = shape.without(0);
  return shape;
}

int Draw::dim(const Shape& shape) { return int(integer(-shape.rank(), shape.rank() - 1)); }

std::vector<int> Draw::dims(const Shape& shape) {
  std::vector<int> dims;
  for (int d = 0; d < shape.rank(); ++d) {
    if (chance()) dims.push_back(chance() ? d : d - shape.rank());
  }
  std::ranges::shuffle(dims, random_);
  return dims;
}

Tensor Draw::numbers(const Shape& shape, DType dtype, double low, double high) {
  std::vector<double> values(size_t(shape.numel()));
  for (double& value : values) value = number(low, high);
  return Tensor::from(values, shape).to(dtype);
}

Tensor Draw::distinct(const Shape& shape, DType dtype) {
  std::vector<double> values(size_t(shape.numel()));
  std::iota(values.begin(), values.end(), 0.5 - double(values.size() / 2));
  std::ranges::shuffle(values, random_);
  for (double& value : values) value /= 32;
  return Tensor::from(values, shape).to(dtype);
}

Tensor Draw::integers(const Shape& shape, int64_t low, int64_t high, DType dtype) {
  std::vector<int64_t> values(size_t(shape.numel()));
  for (int64_t& value : values) value = integer(low, high);
  return Tensor::from(values, shape).to(dtype);
}

Tensor Draw::truths(const Shape& shape, double p) {
  std::vector<int64_t> values(size_t(shape.numel()));
  for (int64_t& value : values) value = chance(p);
  return Tensor::from(values, shape).to(DType::boolean);
}

Tensor Draw::anything(const Shape& shape) {
  return integers(shape, 0, 3,
                  one_of<DType>({DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32,
                                 DType::i64, DType::u8, DType::boolean}));
}

// -- loops --------------------------------------------------------------------

Array::Array(const Tensor& tensor)
    : shape(tensor.shape()), values(tensor.detach().to(DType::f64).to_vector<double>()) {}

size_t Array::place(const Index& index) const {
  const int left_out = int(index.size()) - shape.rank();
  int64_t place = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    place = place * shape[d] + (shape[d] == 1 ? 0 : index[size_t(d + left_out)]);
  }
  return size_t(place);
}

std::vector<Index> indices_of(const Shape& shape) {
  std::vector<Index> all;
  Index index(size_t(shape.rank()), 0);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    all.push_back(index);
    for (int d = shape.rank() - 1; d >= 0 && ++index[size_t(d)] == shape[d]; --d) {
      index[size_t(d)] = 0;
    }
  }
  return all;
}

void expect_array(const Tensor& actual, const Array& expected, double tolerance) {
  ASSERT_EQ(actual.shape(), expected.shape);
  if (tolerance == 0) tolerance = actual.dtype() == DType::f32 ? 1e-5 : 1e-11;
  expect_close(Array(actual).values, expected.values, {tolerance, tolerance}, "the result");
}

void expect_same(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  EXPECT_EQ(Array(actual).values, Array(expected).values);
}

// -- gradients ----------------------------------------------------------------

namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// `inputs` moved by `step` times their directions; constants have none.
Inputs moved(const Inputs& inputs, const std::vector<std::vector<double>>& directions,
             double step) {
  Inputs result = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::f64) continue;
    std::vector<double> values = inputs[i].to_vector<double>();
    for (size_t k = 0; k < values.size(); ++k) values[k] += step * directions[i][k];
    result[i] = leaf(values, inputs[i].shape());
  }
  return result;
}

}  // namespace

void expect_slope(const TestFunction& f, const Inputs& given, Draw& draw, double tolerance) {
  const auto directions_of = [&] {
    std::vector<std::vector<double>> directions(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].dtype() != DType::f64) continue;
      directions[i] = draw.numbers(given[i].shape(), DType::f64, -1, 1).to_vector<double>();
    }
    return directions;
  };
  // Numbers of 1/128 meet in sums, and a kink may be where they do: a little aside of them.
  const Inputs inputs = moved(given, directions_of(), 1e-4 / std::numbers::pi);
  const auto directions = directions_of();
  const Inputs leaves = moved(inputs, directions, 0);
  const Tensor y = f(leaves);
  const Tensor weights = draw.numbers(y.shape(), DType::f64, -1, 1);
  ASSERT_TRUE(y.requires_grad()) << "the result has no gradient";
  Inputs variables;
  std::vector<double> along;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].dtype() != DType::f64) continue;
    variables.push_back(leaves[i]);
    along.insert(along.end(), directions[i].begin(), directions[i].end());
  }
  std::vector<double> gradient;
  for (const Tensor& part : grad({y}, variables, {.grad_outputs = {weights}})) {
    const std::vector<double> values = part.to_vector<double>();
    gradient.insert(gradient.end(), values.begin(), values.end());
  }
  const auto value_at = [&](double step) {
    return dot(weights.to_vector<double>(), f(moved(inputs, directions, step)).to_vector<double>());
  };
  const double step = 1e-6, numeric = (value_at(step) - value_at(-step)) / (2 * step);
  EXPECT_NEAR(dot(gradient, along), numeric, tolerance * (1 + std::abs(numeric)))
      << "the slope along a random direction";
}

}  // namespace adret::test
