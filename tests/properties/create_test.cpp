// Tensors made of numbers, written in place, converted and thinned out.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/random.h>

#include <algorithm>
#include <cmath>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

DType some_numbers(Draw& draw) {
  return draw.one_of<DType>({DType::f32, DType::f64, DType::i32, DType::i64});
}

TEST(CreateProperties, Ranges) {
  for_random_cases("arange", [](Draw& draw) {
    const DType dtype = some_numbers(draw);
    const double unit = is_floating(dtype) ? 0.25 : 1;
    const double start = unit * double(draw.integer(-9, 9)),
                 end = unit * double(draw.integer(-9, 9));
    const double step = unit * double(draw.integer(1, 3)) * (draw.chance() ? 1 : -1);
    std::vector<double> expected;
    for (double x = start; step > 0 ? x < end : x > end; x += step) expected.push_back(x);
    const Tensor y = arange(start, end, step, {.dtype = dtype});
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(Array(y).values, expected);
  });
  for_random_cases("linspace", [](Draw& draw) {
    const int64_t count = draw.integer(0, 9);
    const double start = draw.number(-3, 3), end = draw.number(-3, 3);
    expect_array(linspace(start, end, count, {.dtype = draw.wide()}),
                 tabulate({count}, [&](const Index& at) {
                   const double share = count > 1 ? double(at[0]) / double(count - 1) : 0;
                   return start + share * (end - start);
                 }));
  });
  for_random_cases("eye", [](Draw& draw) {
    const int64_t rows = draw.size(), columns = draw.size();
    const TensorOptions options{.dtype = draw.anything({}).dtype()};
    const auto diagonal = [](const Index& at) { return double(at[0] == at[1]); };
    const Tensor y = eye(rows, columns, options);
    EXPECT_EQ(y.dtype(), options.dtype);
    expect_array(y, tabulate({rows, columns}, diagonal));
    expect_array(eye(rows, options), tabulate({rows, rows}, diagonal));
  });
}

// -- drawn --------------------------------------------------------------------

// Of the values (numbers without end would be a test of luck): all within bounds, another draw with
// each call, the same again from a seed.
template <class Make>
void expect_drawn(Draw& draw, Make make, double low, double high) {
  const auto seed = uint64_t(draw.integer(0, 1000));
  random::manual_seed(seed);
  const Tensor y = make(), other = make();
  for (double v : Array(y).values) EXPECT_TRUE(v >= low && v <= high) << v;
  random::manual_seed(seed);
  expect_same(make(), y);
  expect_same(make(), other);
}

TEST(CreateProperties, Drawn) {
  for_random_cases("rand", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const TensorOptions options{.dtype = draw.wide()};
    expect_drawn(
        draw, [&] { return rand(shape, options); }, 0, 1);
  });
  for_random_cases("randn", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const TensorOptions options{.dtype = draw.wide()};
    expect_drawn(
        draw, [&] { return randn(shape, options); }, -9, 9);
  });
  for_random_cases("randint", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const int64_t low = draw.integer(-9, 9), high = low + draw.integer(1, 9);
    const TensorOptions options{.dtype = some_numbers(draw)};
    expect_drawn(
        draw, [&] { return randint(low, high, shape, options); }, double(low), double(high - 1));
  });
  for_random_cases("bernoulli", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const double p = draw.one_of<double>({0, 0.5, 1});
    const Tensor chances = Tensor::full(shape, p, {.dtype = draw.wide()});
    expect_drawn(
        draw, [&] { return bernoulli(chances); }, p == 1 ? 1 : 0, p == 0 ? 0 : 1);
    for (double v : Array(bernoulli(chances)).values) EXPECT_TRUE(v == 0 || v == 1);
  });
  for_random_cases("randperm", [](Draw& draw) {
    const int64_t n = draw.integer(0, 40);
    expect_drawn(
        draw, [&] { return randperm(n); }, 0, double(n - 1));
    std::vector<int64_t> order = randperm(n).to_vector<int64_t>();
    std::ranges::sort(order);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(order[size_t(i)], i);
  });
}

// -- dropout ------------------------------------------------------------------

using Dropout = Tensor (*)(const Tensor&, double, bool);

// Each element is 0 or x / (1 - p), alike along the dimensions first..last-1 counted from one end,
// and the gradient has the same mask.
void expect_dropped(Draw& draw, Dropout call, int first, int from_end) {
  const Shape shape = draw.shape(2, 4);
  const double p = draw.one_of<double>({0, 0.25, 0.5, 0.9, 1});
  const Tensor x = draw.numbers(shape);
  const auto seed = uint64_t(draw.integer(0, 1000));
  random::manual_seed(seed);
  const Array in(x), y(call(x, p, true));
  Shape masks = shape;
  for (int d = first; d < shape.rank() - from_end; ++d) masks = masks.with(d, 1);
  Array mask(masks, -1);
  for (const Index& at : indices_of(shape)) {
    const bool kept = y.at(at) != 0;
    EXPECT_DOUBLE_EQ(y.at(at), kept ? in.at(at) / (1 - p) : 0);
    if (mask.at(at) < 0) mask.at(at) = kept;
    EXPECT_EQ(mask.at(at), double(kept)) << "another mask in the same part";
    EXPECT_TRUE(p > 0 || kept);
    EXPECT_TRUE(p < 1 || !kept);
  }
  expect_same(call(x, p, false), x);
  expect_slope(
      [&](const Inputs& in) {
        random::manual_seed(seed);
        return call(in[0] * 1, p, true);
      },
      {x}, draw);
}

TEST(DropoutProperties, ZeroesAndScales) {
  for_random_cases("dropout", [](Draw& draw) { expect_dropped(draw, dropout, 9, 0); });
  for_random_cases("dropout2d", [](Draw& draw) { expect_dropped(draw, dropout2d, 1, 1); });
  for_random_cases("drop_path", [](Draw& draw) { expect_dropped(draw, drop_path, 1, 0); });
}

// Dropped or scaled and shifted, alike along the dimensions 1..last-1.
void expect_alpha_dropped(Draw& draw, Dropout call, bool of_channels) {
  const Shape shape = draw.shape(2, 4);
  const double p = draw.one_of<double>({0.25, 0.5, 0.9}), lowest = -1.7580993408473766;
  const double scale = 1 / std::sqrt((lowest * lowest * p + 1) * (1 - p));
  const Tensor x = draw.numbers(shape);
  const auto seed = uint64_t(draw.integer(0, 1000));
  random::manual_seed(seed);
  const Array in(x), y(call(x, p, true));
  Shape masks = shape;
  for (int d = 1; of_channels && d < shape.rank() - 1; ++d) masks = masks.with(d, 1);
  Array mask(masks, -1);
  for (const Index& at : indices_of(shape)) {
    const double dropped = lowest * scale * (1 - p), kept = scale * (in.at(at) - lowest * p);
    const bool is_kept = std::abs(y.at(at) - kept) < std::abs(y.at(at) - dropped);
    EXPECT_NEAR(y.at(at), is_kept ? kept : dropped, 1e-12);
    if (mask.at(at) < 0) mask.at(at) = is_kept;
    EXPECT_EQ(mask.at(at), double(is_kept)) << "another mask in the same part";
  }
  expect_slope(
      [&](const Inputs& in) {
        random::manual_seed(seed);
        return call(in[0] * 1, p, true);
      },
      {x}, draw);
}

TEST(DropoutProperties, OfSeluReplacesAndScales) {
  for_random_cases("alpha_dropout",
                   [](Draw& draw) { expect_alpha_dropped(draw, alpha_dropout, false); });
  for_random_cases("feature_alpha_dropout",
                   [](Draw& draw) { expect_alpha_dropped(draw, feature_alpha_dropout, true); });
}

// The share of what is dropped is p, to within five deviations.
TEST(DropoutProperties, KeepsTheRate) {
  for_random_cases(
      "dropout",
      [](Draw& draw) {
        const double p = draw.number(0, 1);
        const int64_t n = 20000;
        random::manual_seed(uint64_t(draw.integer(0, 1000)));
        const Array y(dropout(Tensor::ones({n}), p, true));
        const auto dropped = double(std::ranges::count(y.values, 0));
        EXPECT_NEAR(dropped / double(n), p, 5 * std::sqrt(p * (1 - p) / double(n)));
      },
      20);
}

// -- in place -----------------------------------------------------------------

TEST(InplaceProperties, WriteInto) {
  const NoGrad no_grad;
  for_random_cases("fill_", [](Draw& draw) {
    const Tensor x = draw.anything(draw.shape(0, 4));
    const double value = double(draw.integer(0, 1));
    fill_(x, value);
    expect_array(x, Array(x.shape(), value));
  });
  for_random_cases("copy_", [](Draw& draw) {
    const Tensor from = draw.anything(draw.shape(0, 4)), to = from.clone();
    fill_(to, 0);
    copy_(to, from);
    expect_same(to, from);
  });
  for_random_cases("add_", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const DType dtype = some_numbers(draw);
    const Tensor to = draw.integers(shape, -9, 9, dtype), from = draw.integers(shape, -9, 9, dtype);
    const Array before(to), more(from);
    add_(to, from);
    expect_array(to, tabulate(shape, [&](const Index& at) { return before.at(at) + more.at(at); }));
  });
}

// -- conversions --------------------------------------------------------------

// Whole numbers that every dtype but boolean holds come back from any.
TEST(ConversionProperties, KeepWhatFits) {
  for_random_cases("to", [](Draw& draw) {
    const Tensor x = draw.integers(draw.shape(0, 4), 0, 100, DType::i64);
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::u8}) {
      expect_same(x.to(dtype).to(DType::i64), x);
    }
    expect_array(x.to(DType::boolean), tabulate(x.shape(), [&](const Index& at) {
                   return double(Array(x).at(at) != 0);
                 }));
    expect_same(x.clone(), x);
    expect_slope([](const Inputs& in) { return in[0].clone().to(DType::f64) * 1; },
                 {draw.numbers(x.shape())}, draw);
  });
}

// The nearest 16-bit float is at most half a unit in the last place away.
TEST(ConversionProperties, RoundToNearest) {
  for_random_cases("to", [](Draw& draw) {
    const Tensor x = draw.numbers(draw.shape(0, 3), DType::f32, -60, 60);
    const Array in(x);
    for (const auto& [dtype, unit] : {std::pair{DType::bf16, 0x1p-8}, {DType::f16, 0x1p-11}}) {
      const Array rounded(x.to(dtype));
      for (size_t i = 0; i < in.values.size(); ++i) {
        EXPECT_NEAR(rounded.values[i], in.values[i], unit * std::abs(in.values[i]));
      }
    }
  });
}

}  // namespace
}  // namespace adret
