// Functions of integers against loops in 64 bits.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/scan.h>

#include <algorithm>
#include <cmath>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

struct Range {
  DType dtype;
  int64_t low, high;
};
// Numbers of one of the dtypes, mostly few and small, so that products stay exact in f64.
Range drawn_range(Draw& draw) {
  return draw.one_of<Range>({{DType::i32, -40, 40}, {DType::i64, -90, 90}, {DType::u8, 0, 255}});
}

// As the dtype stores it.
double wrapped(double value, DType dtype) {
  return dtype == DType::u8 ? value - 256 * std::floor(value / 256) : value;
}

double floor_quotient(double a, double b) { return b == 0 ? 0 : std::floor(a / b); }

struct Pairs {
  const char* name;
  Tensor (*call)(const Tensor&, const Tensor&);
  Tensor (*with_scalar)(const Tensor&, double);
  double (*formula)(double, double);
};

TEST(IntegerProperties, OfTwoFollowTheFormulaWithBroadcastingAndScalars) {
  const Pairs functions[] = {
      {"add", add, add, [](double a, double b) { return a + b; }},
      {"subtract", subtract, subtract, [](double a, double b) { return a - b; }},
      {"multiply", multiply, multiply, [](double a, double b) { return a * b; }},
      {"maximum", maximum, nullptr, [](double a, double b) { return std::max(a, b); }},
      {"minimum", minimum, nullptr, [](double a, double b) { return std::min(a, b); }},
      {"floor_divide", floor_divide, floor_divide, floor_quotient},
      {"remainder", remainder, remainder,
       [](double a, double b) { return b == 0 ? 0 : a - b * std::floor(a / b); }},
      {"fmod", fmod, fmod, [](double a, double b) { return b == 0 ? 0 : std::fmod(a, b); }},
      {"less", less, less, [](double a, double b) { return double(a < b); }},
      {"greater_equal", greater_equal, greater_equal,
       [](double a, double b) { return double(a >= b); }},
  };
  for (const Pairs& test : functions) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Range range = drawn_range(draw);
      const Shape full = draw.shape(0, 4);
      const Shape small = draw.stretched_to(full);
      const Tensor a = draw.integers(full, range.low, range.high, range.dtype),
                   b = draw.integers(small, range.low, range.high, range.dtype);
      const Array left(a), right(b);
      expect_array(test.call(a, b), tabulate(full, [&](const Index& at) {
                     return wrapped(test.formula(left.at(at), right.at(at)), range.dtype);
                   }));
      if (!test.with_scalar) return;
      const auto scalar = double(draw.integer(std::max<int64_t>(range.low, -9), 9));
      if (scalar == 0) return;
      expect_array(test.with_scalar(a, scalar), tabulate(full, [&](const Index& at) {
                     return wrapped(test.formula(left.at(at), scalar), range.dtype);
                   }));
    });
  }
}

TEST(IntegerProperties, OfOneFollowTheFormula) {
  struct One {
    const char* name;
    Tensor (*call)(const Tensor&);
    double (*formula)(double);
  };
  const One functions[] = {
      {"abs", abs, [](double x) { return std::abs(x); }},
      {"sign", sign, [](double x) { return double(x > 0) - double(x < 0); }},
      {"negative", negative, [](double x) { return -x; }},
      {"square", square, [](double x) { return x * x; }},
      {"clamp", [](const Tensor& x) { return clamp(x, -7, 20); },
       [](double x) { return std::clamp(x, -7.0, 20.0); }},
      {"pow", [](const Tensor& x) { return pow(x, 3); }, [](double x) { return x * x * x; }},
      {"affine", [](const Tensor& x) { return affine(x, 5, 3); },
       [](double x) { return 5 * x + 3; }},
  };
  for (const One& test : functions) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Range range = drawn_range(draw);
      const Tensor x = draw.integers(draw.shape(0, 4), range.low, range.high, range.dtype);
      const Array in(x);
      expect_array(test.call(x), tabulate(x.shape(), [&](const Index& at) {
                     return wrapped(test.formula(in.at(at)), range.dtype);
                   }));
    });
  }
}

// Of one dimension.
template <class F>
Array folded(const Array& x, int dim, F fold) {
  return tabulate(x.shape.without(dim), [&](const Index& at) {
    std::vector<double> values;
    for (int64_t i = 0; i < x.shape[dim]; ++i) values.push_back(x.at(inserted(at, dim, i)));
    return double(fold(values));
  });
}

TEST(IntegerProperties, ReductionsAndScans) {
  for_random_cases("sum", [](Draw& draw) {
    const Range range = drawn_range(draw);
    const Shape shape = draw.shape(1, 4);
    const int dim = int(draw.integer(0, shape.rank() - 1));
    const Tensor x = draw.integers(shape, range.low, range.high, range.dtype);
    const Array in(x);
    const auto add_up = [](const std::vector<double>& v) {
      double total = 0;
      for (double one : v) total += one;
      return total;
    };
    const Tensor total = sum(x, {.dims = {dim}});
    EXPECT_EQ(total.dtype(), DType::i64);
    expect_array(total, folded(in, dim, add_up));
    expect_array(cumsum(x, dim), tabulate(shape, [&](const Index& at) {
                   double running = 0;
                   for (int64_t i = 0; i <= at[size_t(dim)]; ++i)
                     running += in.at(with(at, dim, i));
                   return running;
                 }));
    if (shape[dim] == 0) return;
    expect_array(max(x, {.dims = {dim}}), folded(in, dim, [](const std::vector<double>& v) {
                   return *std::ranges::max_element(v);
                 }));
    expect_array(min(x, {.dims = {dim}}), folded(in, dim, [](const std::vector<double>& v) {
                   return *std::ranges::min_element(v);
                 }));
    expect_array(argmax(x, {.dim = dim}), folded(in, dim, [](const std::vector<double>& v) {
                   return std::ranges::max_element(v) - v.begin();
                 }));
  });
}

}  // namespace
}  // namespace adret
