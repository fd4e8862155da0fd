// Layer, RMS, group and instance norm against loops in f64.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

struct Case {
  Shape shape;  // (N, S, C)
  int64_t groups = 1;
  bool centered = true, affine = true, sum = false;
  double shift = 0, scale = 1;  // of x
  double epsilon = 1e-5;

  std::string name() const {
    return fmt::format("{} groups {}{}{}{} shift {}", to_string(shape), groups,
                       centered ? "" : " not centered", affine ? " affine" : "", sum ? " sum" : "",
                       shift);
  }
};

struct Operands {
  Values x, added, weight, bias, dy, dsum;

  explicit Operands(const Case& of, uint32_t seed = 1)
      : x(random_values(of.shape.numel(), seed)),
        added(random_values(of.shape.numel(), seed + 1)),
        weight(random_values(of.shape[2], seed + 2)),
        bias(random_values(of.shape[2], seed + 3)),
        dy(random_values(of.shape.numel(), seed + 4)),
        dsum(random_values(of.shape.numel(), seed + 5)) {
    for (double& v : x) v = double(float(v * of.scale + of.shift));
    for (double& v : added) v *= of.sum ? 1 : 0;
    for (double& v : dsum) v *= of.sum ? 1 : 0;
  }
};

struct Results {
  Values sum, y, mean, rstd, dx, dweight, dbias;
};

// Group by group from the definition.
Results reference(const Case& of, const Operands& in) {
  const size_t samples = size_t(of.shape[0]), places = size_t(of.shape[1]);
  const size_t channels = size_t(of.shape[2]), width = channels / size_t(of.groups);
  const double count = double(places * width);
  Results r;
  r.sum.resize(in.x.size());
  r.y.resize(in.x.size());
  r.dx.resize(in.x.size());
  r.dweight.resize(channels);
  r.dbias.resize(channels);
  for (size_t i = 0; i < in.x.size(); ++i) r.sum[i] = in.x[i] + in.added[i];
  for (size_t n = 0; n < samples; ++n) {
    for (size_t first = 0; first < channels; first += width) {
      const auto each = [&](auto f) {
        for (size_t s = 0; s < places; ++s) {
          for (size_t c = first; c < first + width; ++c) f((n * places + s) * channels + c, c);
        }
      };
      const auto weight = [&](size_t c) { return of.affine ? in.weight[c] : 1.0; };
      double mean = 0, variance = 0, offset = 0, slope = 0;
      each([&](size_t i, size_t) { mean += of.centered ? r.sum[i] / count : 0; });
      each([&](size_t i, size_t) { variance += (r.sum[i] - mean) * (r.sum[i] - mean) / count; });
      const double rstd = 1 / std::sqrt(variance + of.epsilon);
      each([&](size_t i, size_t c) {
        const double normalised = (r.sum[i] - mean) * rstd, g = in.dy[i] * weight(c);
        r.y[i] = normalised * weight(c) + (of.affine ? in.bias[c] : 0);
        r.dweight[c] += in.dy[i] * normalised;
        r.dbias[c] += in.dy[i];
        offset += of.centered ? g / count : 0;
        slope += g * normalised / count;
      });
      each([&](size_t i, size_t c) {
        const double normalised = (r.sum[i] - mean) * rstd;
        r.dx[i] = rstd * (in.dy[i] * weight(c) - offset - normalised * slope) + in.dsum[i];
      });
      r.mean.push_back(mean);
      r.rstd.push_back(rstd);
    }
  }
  return r;
}

template <class T>
Results compute(const Case& of, const Operands& in) {
  const Shape statistics{of.shape[0], of.groups}, channels{of.shape[2]};
  const Guarded<T> x(of.shape, in.x), added(of.shape, in.added), dy(of.shape, in.dy);
  const Guarded<T> dsum(of.shape, in.dsum), weight(channels, in.weight), bias(channels, in.bias);
  const Guarded<T> sum(of.shape), y(of.shape), dx(of.shape), mean(statistics), rstd(statistics);
  const Guarded<T> dweight(channels), dbias(channels);
  const auto if_ = [](bool wanted, const Guarded<T>& operand) {
    return wanted ? TensorView(operand) : TensorView();
  };
  run(kernels::GroupNormForward{.x = x,
                                .added = if_(of.sum, added),
                                .weight = if_(of.affine, weight),
                                .bias = if_(of.affine, bias),
                                .sum = if_(of.sum, sum),
                                .y = y,
                                .mean = if_(of.centered, mean),
                                .rstd = rstd,
                                .groups = of.groups,
                                .epsilon = of.epsilon,
                                .centered = of.centered});
  run(kernels::GroupNormBackward{.x = if_(true, of.sum ? sum : x),
                                 .dy = dy,
                                 .dsum = if_(of.sum, dsum),
                                 .weight = if_(of.affine, weight),
                                 .mean = if_(of.centered, mean),
                                 .rstd = rstd,
                                 .dx = dx,
                                 .dweight = dweight,
                                 .dbias = dbias,
                                 .groups = of.groups,
                                 .centered = of.centered});
  EXPECT_TRUE(sum.guards_intact() && y.guards_intact() && mean.guards_intact() &&
              rstd.guards_intact() && dx.guards_intact() && dweight.guards_intact() &&
              dbias.guards_intact())
      << of.name();
  return {sum.values(), y.values(),       mean.values(), rstd.values(),
          dx.values(),  dweight.values(), dbias.values()};
}

// `unit` is a few roundings. What the statistics magnify is the size of their factors.
template <class T>
void expect_matches(const Case& of, double unit, uint32_t seed = 1) {
  const Operands in(of, seed);
  const Results expected = reference(of, in), actual = compute<T>(of, in);
  const std::string what = of.name();
  double rstd = 1;
  for (double v : expected.rstd) rstd = std::max(rstd, v);
  const double large = (std::abs(of.shift) + of.scale) * rstd;
  const Tolerance one{.relative = unit, .absolute = unit};
  if (of.sum) expect_close(actual.sum, expected.sum, one, what + " sum");
  expect_close(actual.y, expected.y, {.relative = unit, .absolute = 4 * unit}, what + " y");
  if (of.centered) expect_close(actual.mean, expected.mean, one, what + " mean");
  expect_close(actual.rstd, expected.rstd, {.relative = 2 * unit}, what + " rstd");
  // mean comes rounded to the backward pass.
  expect_close(actual.dx, expected.dx, {.absolute = 10 * unit * rstd * (1 + large)}, what + " dx");
  const double terms = std::sqrt(double(of.shape[0] * of.shape[1])) + 1;
  expect_close(actual.dbias, expected.dbias, {.absolute = unit * terms * 4}, what + " dbias");
  expect_close(actual.dweight, expected.dweight, {.absolute = unit * terms * 4 * (1 + large)},
               what + " dweight");
}

void expect_in_both(const Case& of, uint32_t seed = 1) {
  expect_matches<float>(of, 1e-6, seed);
  expect_matches<double>(of, 1e-14, seed);
}

// Rows at the ends of what lanes, warps and blocks of a GPU hold, of vectors of 4 and 8 and of odd
// sizes; and some that nothing holds.
TEST(LayerNorm, MatchesTheDefinitionForRowsOfAllLengths) {
  for (int64_t width :
       {1,   2,   3,   4,   5,   7,   8,   16,   31,   32,   33,   64,   65,   96,   128,  129,
        192, 256, 384, 512, 516, 520, 768, 1000, 1024, 1025, 1032, 1280, 4096, 4100, 8192, 8200}) {
    expect_in_both({.shape = {3, 1, width}});
    expect_in_both({.shape = {3, 1, width}, .centered = false, .affine = false});
    expect_in_both({.shape = {2, 1, width}, .sum = true});
  }
}

TEST(LayerNorm, MatchesTheDefinitionForManyRows) {
  for (int64_t rows : {1, 5, 64, 257, 3000}) {
    for (int64_t width : {6, 24, 48, 64, 100}) {
      expect_in_both({.shape = {rows, 1, width}, .sum = rows % 2 == 0});
    }
  }
  expect_in_both({.shape = {1000, 1, 1200}});
}

TEST(GroupNorm, MatchesTheDefinitionForManyShapes) {
  const Case cases[] = {
      {.shape = {2, 1, 6}, .groups = 3},      {.shape = {2, 9, 6}, .groups = 3},
      {.shape = {3, 49, 64}, .groups = 32},   {.shape = {2, 16, 256}, .groups = 32},
      {.shape = {2, 64, 40}, .groups = 4},    {.shape = {1, 7, 1000}, .groups = 1},
      {.shape = {2, 3, 5000}, .groups = 1},   {.shape = {1, 5, 4096}, .groups = 2},
      {.shape = {5, 17, 3}, .groups = 3},     {.shape = {2, 100, 65}, .groups = 65},
      {.shape = {2, 33, 128}, .groups = 128}, {.shape = {1, 4000, 8}, .groups = 2},
      {.shape = {40, 2, 16}, .groups = 2},    {.shape = {700, 4, 10}, .groups = 5}};
  for (Case of : cases) {
    expect_in_both(of);
    of.sum = true;
    expect_in_both(of);
    of.centered = false;
    of.affine = false;
    expect_in_both(of);
  }
}

TEST(GroupNorm, MatchesTheDefinitionForRandomShapes) {
  std::mt19937 generator(20);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + int64_t(generator() % uint64_t(high - low + 1));
  };
  for (uint32_t i = 0; i < 200; ++i) {
    SCOPED_TRACE(fmt::format("case {} of seed 20", i));
    const int64_t groups = draw(1, 9), width = draw(1, 40);
    const Case of{.shape = {draw(1, 6), draw(1, 3) == 1 ? 1 : draw(2, 30), groups * width},
                  .groups = draw(1, 2) == 1 ? groups : 1,
                  .centered = draw(1, 3) != 1,
                  .affine = draw(1, 3) != 1,
                  .sum = draw(1, 2) == 1,
                  .shift = double(draw(-2, 2)),
                  .epsilon = 1e-3};
    expect_in_both(of, i);
  }
}

// A mean of 10,000 deviations: its square would leave f32 no digit of the variance.
TEST(GroupNorm, KeepsTheVarianceOfALargeMean) {
  for (Case of :
       {Case{.shape = {3, 1, 768}}, Case{.shape = {2, 1, 20'000}},
        Case{.shape = {2, 64, 32}, .groups = 4}, Case{.shape = {2, 50, 9}, .groups = 9}}) {
    of.shift = 1e4;
    of.scale = std::sqrt(3.0);  // uniform numbers of standard deviation 1
    const Operands in(of);
    const Results expected = reference(of, in), actual = compute<float>(of, in);
    expect_close(actual.rstd, expected.rstd, {.relative = 1e-5}, of.name() + " rstd");
    expect_close(actual.y, expected.y, {.absolute = 1e-5}, of.name() + " y");
  }
}

TEST(GroupNorm, WritesNothingButZerosForNoSamples) {
  for (const Shape& shape : {Shape{0, 1, 8}, Shape{0, 4, 8}}) {
    const Results r = compute<float>({.shape = shape}, Operands({.shape = shape}));
    EXPECT_EQ(r.dweight, Values(8, 0));
    EXPECT_EQ(r.dbias, Values(8, 0));
  }
}

TEST(GroupNorm, LetsNanThrough) {
  for (Case of : {Case{.shape = {2, 1, 16}}, Case{.shape = {2, 3, 16}, .groups = 4}}) {
    Operands in(of);
    in.x[5] = NAN;
    const Results r = compute<float>(of, in);
    EXPECT_TRUE(std::isnan(r.y[5]) && std::isnan(r.rstd[size_t(of.groups == 4)]));
    EXPECT_FALSE(std::isnan(r.y.back()));
  }
}

TEST(GroupNorm, WritesTheGradientsThatAreWanted) {
  const Shape shape{6, 1, 16};
  const Guarded<float> x(shape, random_values(96, 1)), dy(shape, random_values(96, 2));
  const Guarded<float> rstd({6, 1}, Values(6, 1.5)), mean({6, 1}, Values(6, 0.25));
  for (int wanted = 1; wanted < 8; ++wanted) {
    const Guarded<float> dx(shape), dweight({16}), dbias({16});
    kernels::GroupNormBackward call{.x = x, .dy = dy, .mean = mean, .rstd = rstd};
    if (wanted & 1) call.dx = dx;
    if (wanted & 2) call.dweight = dweight;
    if (wanted & 4) call.dbias = dbias;
    run(call);
    EXPECT_EQ(std::isnan(dx.values()[0]), !(wanted & 1));
    EXPECT_EQ(std::isnan(dweight.values()[0]), !(wanted & 2));
    EXPECT_EQ(std::isnan(dbias.values()[0]), !(wanted & 4));
  }
}

TEST(GroupNorm, HasTheSameBitsForAnyNumberOfThreads) {
  for (const Case& of : {Case{.shape = {4000, 1, 48}}, Case{.shape = {20, 30, 64}, .groups = 8}}) {
    const Operands in(of);
    expect_same_for_any_threads([&] {
      const Results r = compute<float>(of, in);
      return std::tuple(r.y, r.dx, r.dweight, r.dbias);
    });
  }
}

}  // namespace
}  // namespace adret
