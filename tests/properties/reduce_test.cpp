// Functions of the elements along dimensions: reductions, statistics, extremes, scans and softmax.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/scan.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/ops/statistics.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

constexpr double inf = std::numeric_limits<double>::infinity();

// Which dimensions a case reduces; none named are all.
struct Way {
  std::vector<int> dims;
  bool keepdim;
  std::vector<bool> reduced;

  Way(Draw& draw, const Shape& shape)
      : dims(draw.dims(shape)),
        keepdim(draw.chance()),
        reduced(size_t(shape.rank()), dims.empty()) {
    for (int dim : dims) reduced[size_t(dim < 0 ? dim + shape.rank() : dim)] = true;
  }
  Shape shape_of(const Shape& x, bool kept) const {
    Shape shape = x;
    for (int d = x.rank() - 1; d >= 0; --d) {
      if (reduced[size_t(d)]) shape = kept ? shape.with(d, 1) : shape.without(d);
    }
    return shape;
  }
};

// f of the elements that go to each result.
template <class F>
Array by_groups(const Array& x, const Way& way, F f) {
  const Array places(way.shape_of(x.shape, true));
  std::vector<Values> groups(places.values.size());
  Array numbers = places;  // of the groups
  std::iota(numbers.values.begin(), numbers.values.end(), 0);
  for (const Index& at : indices_of(x.shape)) groups[size_t(numbers.at(at))].push_back(x.at(at));
  Array y(way.shape_of(x.shape, way.keepdim));
  for (size_t i = 0; i < groups.size(); ++i) y.values[i] = f(groups[i]);
  return y;
}

double sum_of(const Values& values) { return std::accumulate(values.begin(), values.end(), 0.0); }
double mean_of(const Values& values) { return sum_of(values) / double(values.size()); }
double product_of(const Values& values) {
  return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
}
double largest_of(const Values& values) { return *std::ranges::max_element(values); }
double smallest_of(const Values& values) { return *std::ranges::min_element(values); }
double variance_of(const Values& values, double correction) {
  const double mean = mean_of(values);
  double squares = 0;
  for (double v : values) squares += (v - mean) * (v - mean);
  return squares / std::max(0.0, double(values.size()) - correction);
}

struct Reduction {
  const char* name;
  Tensor (*call)(const Tensor&, const ReduceOptions&);
  double (*formula)(const Values&);
  bool of_something = false;  // wants an element for each result
};

TEST(ReduceProperties, OfFloatsFollowTheirDefinitions) {
  const Reduction reductions[] = {
      {"sum", sum, sum_of},
      {"mean", mean, mean_of, true},
      {"prod", prod, product_of},
      {"max", max, largest_of, true},
      {"min", min, smallest_of, true},
      {"logsumexp", logsumexp,
       [](const Values& v) {
         double sum = 0;
         for (double x : v) sum += std::exp(x);
         return std::log(sum);
       }},
  };
  for (const Reduction& test : reductions) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shape shape = draw.shape(0, 4);
      if (test.of_something && shape.numel() == 0) return;
      const Tensor x = draw.distinct(shape);
      const Way way(draw, shape);
      const ReduceOptions options{way.dims, way.keepdim};
      const Array y = by_groups(x, way, test.formula);
      if (draw.chance() || test.call != prod) {  // of many factors f32 loses more
        expect_array(test.call(x, options), y, 1e-10);
      }
      if (test.call != prod) {
        expect_array(test.call(x.to(DType::f32), options), y, 1e-4);
      }
      if (test.call == logsumexp && shape.numel() == 0) return;  // -infinity has no slope
      if (test.call == prod && shape.numel() > 40) return;       // nor have numbers without end
      expect_slope([&](const Inputs& in) { return test.call(in[0], options); }, {x}, draw, 1e-5);
    });
  }
}

TEST(ReduceProperties, OfAnyDtypeCountTruths) {
  const Reduction reductions[] = {
      {"any", any, [](const Values& v) { return double(std::ranges::count(v, 0) < ssize(v)); }},
      {"all", all, [](const Values& v) { return double(std::ranges::count(v, 0) == 0); }},
      {"count_nonzero", count_nonzero,
       [](const Values& v) { return double(ssize(v) - std::ranges::count(v, 0)); }},
  };
  for (const Reduction& test : reductions) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shape shape = draw.shape(0, 4);
      const Tensor x = draw.anything(shape);
      const Way way(draw, shape);
      expect_array(test.call(x, {way.dims, way.keepdim}), by_groups(x, way, test.formula));
    });
  }
}

TEST(StatisticsProperties, VarianceAndDeviation) {
  for_random_cases("var", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const Tensor x = draw.numbers(shape);
    const Way way(draw, shape);
    const VarianceOptions options{way.dims, way.keepdim, draw.one_of<double>({0, 1})};
    const auto formula = [&](const Values& v) { return variance_of(v, options.correction); };
    expect_array(var(x, options), by_groups(x, way, formula));
    const auto y = by_groups(x, way, [](const Values& v) { return double(v.size()); });
    if (y.values.empty() || y.values[0] - options.correction <= 0) return;
    expect_slope([&](const Inputs& in) { return var(in[0], options); }, {x}, draw);
  });
  for_random_cases("stddev", [](Draw& draw) {
    const Shape shape = draw.shape(1, 4);
    const Tensor x = draw.distinct(shape);
    const Way way(draw, shape);
    const VarianceOptions options{way.dims, way.keepdim, draw.one_of<double>({0, 1})};
    const auto formula = [&](const Values& v) {
      return std::sqrt(variance_of(v, options.correction));
    };
    expect_array(stddev(x, options), by_groups(x, way, formula));
    const auto y = by_groups(x, way, [](const Values& v) { return double(v.size()); });
    if (y.values.empty() || y.values[0] < 2) return;  // 0 has no slope
    expect_slope([&](const Inputs& in) { return stddev(in[0], options); }, {x}, draw);
  });
}

TEST(StatisticsProperties, NormsOfAnyPower) {
  for_random_cases("norm", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const Tensor x = draw.numbers(shape);
    const Way way(draw, shape);
    const double p = draw.one_of<double>({0, 1, 1.5, 2, 3, inf});
    if (p == inf && shape.numel() == 0) return;
    const auto formula = [&](const Values& v) {
      double sum = 0, most = 0;
      for (double x : v) {
        sum += p == 0 ? double(x != 0) : std::pow(std::abs(x), p);
        most = std::max(most, std::abs(x));
      }
      return p == inf ? most : p == 0 ? sum : std::pow(sum, 1 / p);
    };
    const ReduceOptions options{way.dims, way.keepdim};
    expect_array(norm(x, p, options), by_groups(x, way, formula));
    if (p == 0 || p == inf || shape.numel() == 0) return;
    expect_slope([&](const Inputs& in) { return norm(in[0], p, options); }, {x}, draw);
  });
}

TEST(ReduceProperties, SumToIsTheAdjointOfBroadcasting) {
  for_random_cases("sum_to", [](Draw& draw) {
    const Shape full = draw.shape(0, 4), to = draw.stretched_to(full);
    const Tensor x = draw.numbers(full);
    const Array in(x);
    Array y(to);
    for (const Index& at : indices_of(full)) y.at(at) += in.at(at);
    expect_array(sum_to(x, to), y);
    expect_slope([&](const Inputs& in) { return sum_to(in[0], to) * 1; }, {x}, draw);
  });
}

// -- extremes -----------------------------------------------------------------

// The elements of x along `dim` beside the one at `at`, which has no place there.
Values line(const Array& x, int dim, const Index& at) {
  Values values;
  for (int64_t i = 0; i < x.shape[dim]; ++i) values.push_back(x.at(inserted(at, dim, i)));
  return values;
}

struct Extreme {
  const char *name, *places_name;
  Extremes (*call)(const Tensor&, const AlongOptions&);
  Tensor (*places)(const Tensor&, const AlongOptions&);
  bool largest;
};
const Extreme extremes[] = {
    {"max_with_indices", "argmax", max_with_indices, argmax, true},
    {"min_with_indices", "argmin", min_with_indices, argmin, false},
};

TEST(ExtremeProperties, OfEqualOnesTheFirstIsGiven) {
  for (const Extreme& test : extremes) {
    for_random_cases(test.name, [&](Draw& draw) {
      const Shape shape = draw.shape(1, 4);
      const int dim = draw.dim(shape), along = dim < 0 ? dim + shape.rank() : dim;
      if (shape[along] == 0) return;
      const DType dtype = draw.one_of<DType>({DType::f32, DType::f64, DType::i32, DType::i64});
      const Tensor x = draw.integers(shape, -2, 2, dtype);
      const Array in(x);
      const Array places = tabulate(shape.without(along), [&](const Index& at) {
        const Values values = line(in, along, at);
        const auto place =
            test.largest ? std::ranges::max_element(values) : std::ranges::min_element(values);
        return double(place - values.begin());
      });
      const Array values = tabulate(places.shape, [&](const Index& at) {
        return in.at(inserted(at, along, int64_t(places.at(at))));
      });
      const Extremes y = test.call(x, {.dim = dim});
      expect_array(y.values, values);
      expect_array(y.indices, places);
      expect_array(test.places(x, {.dim = dim}), places);
      const Tensor kept = test.places(x, {.dim = dim, .keepdim = true});
      expect_array(kept.reshape(places.shape), places);
      EXPECT_EQ(kept.shape(), shape.with(along, 1));
      expect_slope([&](const Inputs& in) { return test.call(in[0], {.dim = dim}).values; },
                   {draw.distinct(shape)}, draw);
    });
  }
}

// Over all elements, in row-major order.
TEST(ExtremeProperties, PlacesOfAllElements) {
  for_random_cases("argmax", [](Draw& draw) {
    const Tensor x = draw.integers(draw.shape(0, 4), -2, 2, DType::i32);
    if (x.numel() == 0) return;
    const Values values = Array(x).values;
    EXPECT_EQ(argmax(x).item<int64_t>(), std::ranges::max_element(values) - values.begin());
  });
  for_random_cases("argmin", [](Draw& draw) {
    const Tensor x = draw.integers(draw.shape(0, 4), -2, 2, DType::i32);
    if (x.numel() == 0) return;
    const Values values = Array(x).values;
    EXPECT_EQ(argmin(x).item<int64_t>(), std::ranges::min_element(values) - values.begin());
  });
}

// -- scans and softmax --------------------------------------------------------

// y of the elements along a dimension of x, where f turns a line into another.
template <class F>
Array by_lines(const Array& x, int dim, F f) {
  Array y(x.shape);
  for (const Index& at : indices_of(x.shape.without(dim))) {
    const Values result = f(line(x, dim, at));
    for (size_t i = 0; i < result.size(); ++i) y.at(inserted(at, dim, int64_t(i))) = result[i];
  }
  return y;
}

// The elements along a dimension of a random tensor, in a random direction.
struct Lines {
  Shape shape;
  int dim, along;
  ScanOptions options;

  explicit Lines(Draw& draw)
      : shape(draw.shape(1, 4)),
        dim(draw.dim(shape)),
        along(dim < 0 ? dim + shape.rank() : dim),
        options{draw.chance(), draw.chance()} {}

  template <class F>
  Values scanned(Values values, double start, F f) const {
    if (options.reverse) std::ranges::reverse(values);
    double total = start;
    for (double& value : values) {
      const double before = total;
      total = f(total, value);
      value = options.exclusive ? before : total;
    }
    if (options.reverse) std::ranges::reverse(values);
    return values;
  }
};

TEST(ScanProperties, AreRunningTotals) {
  for_random_cases("cumsum", [](Draw& draw) {
    const Lines lines(draw);
    const Tensor x = draw.numbers(lines.shape);
    expect_array(cumsum(x, lines.dim, lines.options),
                 by_lines(x, lines.along,
                          [&](const Values& v) { return lines.scanned(v, 0, std::plus<>()); }));
    expect_slope([&](const Inputs& in) { return cumsum(in[0], lines.dim, lines.options) * 1; }, {x},
                 draw);
  });
  for_random_cases("cumprod", [](Draw& draw) {
    const Lines lines(draw);
    const Tensor x = draw.integers(lines.shape, -2, 2).to(DType::f64) * 0.5;
    expect_array(cumprod(x, lines.dim, lines.options),
                 by_lines(x, lines.along, [&](const Values& v) {
                   return lines.scanned(v, 1, std::multiplies<>());
                 }));
    expect_slope([&](const Inputs& in) { return cumprod(in[0] + 0, lines.dim, lines.options) * 1; },
                 {x}, draw);
  });
}

TEST(ScanProperties, LinearRecurrence) {
  for_random_cases("linear_recurrence", [](Draw& draw) {
    const Lines lines(draw);
    const Tensor factors = draw.numbers(lines.shape), terms = draw.numbers(lines.shape);
    const Array a(factors), b(terms);
    Array y(lines.shape);
    for (const Index& at : indices_of(lines.shape)) {
      const int64_t i = at[size_t(lines.along)];
      y.at(at) = b.at(at) + (i > 0 ? a.at(at) * y.at(with(at, lines.along, i - 1)) : 0);
    }
    expect_array(linear_recurrence(factors, terms, lines.dim), y);
    expect_slope([&](const Inputs& in) { return linear_recurrence(in[0], in[1], lines.dim); },
                 {factors, terms}, draw);
  });
}

TEST(SoftmaxProperties, IsTheShareOfEachExponential) {
  const auto shares = [](const Values& values) {
    Values result;
    double total = 0;
    for (double v : values) result.push_back(std::exp(v));
    for (double v : result) total += v;
    for (double& v : result) v /= total;
    return result;
  };
  for_random_cases("softmax", [&](Draw& draw) {
    const Lines lines(draw);
    const Tensor x = draw.numbers(lines.shape, DType::f64, -6, 6);
    const Tensor y = softmax(x, lines.dim);
    expect_array(y, by_lines(x, lines.along, shares));
    expect_array(softmax(x + draw.number(-900, 900), lines.dim), y, 1e-10);
    expect_slope([&](const Inputs& in) { return softmax(in[0], lines.dim); }, {x}, draw);
  });
  for_random_cases("log_softmax", [&](Draw& draw) {
    const Lines lines(draw);
    const Tensor x = draw.numbers(lines.shape, DType::f64, -6, 6);
    const Tensor y = log_softmax(x, lines.dim);
    expect_array(exp(y), by_lines(x, lines.along, shares));
    expect_array(log_softmax(x + draw.number(-900, 900), lines.dim), y, 1e-10);
    expect_slope([&](const Inputs& in) { return log_softmax(in[0], lines.dim); }, {x}, draw);
  });
}

}  // namespace
}  // namespace adret
