// Resampling against weights from their definition, place by place.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

namespace adret {
namespace {

using namespace test;
using kernels::ResampleParams;
using kernels::Resampling;

struct Sizes {
  int64_t n, h, w, c, oh, ow;
};
struct ResampleCase : Sizes {
  std::string name;
  ResampleParams params;

  ResampleCase(std::string name, Sizes sizes, ResampleParams params)
      : Sizes(sizes), name(std::move(name)), params(params) {}
  Shape x() const { return {n, h, w, c}; }
  Shape y() const { return {n, oh, ow, c}; }
};
void PrintTo(const ResampleCase& c, std::ostream* out) { *out << c.name; }

// Every mode on images that grow, shrink, do both, and end at or begin from one pixel.
std::vector<ResampleCase> resample_cases() {
  const std::pair<const char*, Sizes> images[] = {
      {"twice_as_large", {2, 4, 5, 16, 8, 10}}, {"larger", {2, 5, 3, 8, 7, 11}},
      {"smaller", {1, 13, 9, 24, 5, 2}},        {"taller_and_narrower", {3, 3, 17, 3, 10, 6}},
      {"many_channels", {1, 4, 6, 70, 6, 4}},   {"one_channel", {2, 6, 10, 1, 9, 7}},
      {"to_one_pixel", {2, 5, 4, 9, 1, 1}},     {"from_one_pixel", {2, 1, 1, 5, 3, 4}},
      {"one_row", {2, 1, 19, 6, 1, 8}},         {"same_size", {1, 6, 5, 8, 6, 5}},
      {"much_smaller", {1, 40, 33, 4, 3, 2}},   {"many_rows", {40, 9, 9, 12, 17, 17}},
      {"no_images", {0, 4, 4, 3, 2, 2}},        {"no_channels", {2, 4, 4, 0, 2, 3}},
  };
  const std::pair<const char*, ResampleParams> ways[] = {
      {"nearest", {.mode = Resampling::nearest}},
      {"bilinear", {.mode = Resampling::bilinear}},
      {"corners", {.mode = Resampling::bilinear, .align_corners = true}},
      {"area", {.mode = Resampling::area}},
  };
  std::vector<ResampleCase> cases;
  for (const auto& [image, sizes] : images) {
    for (const auto& [way, params] : ways) {
      cases.emplace_back(std::string(way) + "_" + image, sizes, params);
    }
  }
  return cases;
}

// What place j of x gives to place i of y along one direction.
double weight(const ResampleParams& params, int64_t i, int64_t j, int64_t from, int64_t to) {
  const int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
  switch (params.mode) {
    case Resampling::nearest: return j == begin ? 1 : 0;
    case Resampling::area: return j >= begin && j < end ? 1 / double(end - begin) : 0;
    case Resampling::bilinear: break;
  }
  // Places in units that are whole: the difference of two rounded ones would lose small weights.
  const int64_t unit = !params.align_corners ? 2 * to : std::max<int64_t>(to - 1, 1);
  const int64_t last = (from - 1) * unit;
  const int64_t place = params.align_corners
                            ? (to > 1 ? i * (from - 1) : 0)
                            : std::clamp((2 * i + 1) * from - to, int64_t(0), last);
  return double(std::max<int64_t>(0, unit - std::abs(place - j * unit))) / double(unit);
}

// f(index in x, index in y, weight) for each weight that is not zero.
template <class F>
void for_each_weight(const ResampleCase& s, F f) {
  for (int64_t i = 0; i < s.oh; ++i)
    for (int64_t row = 0; row < s.h; ++row)
      for (int64_t j = 0; j < s.ow; ++j)
        for (int64_t column = 0; column < s.w; ++column) {
          const double product =
              weight(s.params, i, row, s.h, s.oh) * weight(s.params, j, column, s.w, s.ow);
          if (product < 1e-12) continue;
          for (int64_t n = 0; n < s.n; ++n)
            for (int64_t c = 0; c < s.c; ++c) {
              f(((n * s.h + row) * s.w + column) * s.c + c, ((n * s.oh + i) * s.ow + j) * s.c + c,
                product);
            }
        }
}

template <class T>
void check(const ResampleCase& s) {
  const Values x = random_values(s.x().numel(), 1), dy = random_values(s.y().numel(), 2);
  Sums y(s.y().numel()), dx(s.x().numel());
  for_each_weight(s, [&](int64_t ix, int64_t iy, double weight) {
    y.add(iy, weight * x[size_t(ix)]);
    dx.add(ix, weight * dy[size_t(iy)]);
  });
  const Guarded<T> y_operand(s.y()), dx_operand(s.x());
  run(kernels::ResampleForward{.x = Guarded<T>(s.x(), x), .y = y_operand, .resample = s.params});
  expect_sums<T>(y_operand.values(), y, "forward");
  run(kernels::ResampleBackward{
      .dy = Guarded<T>(s.y(), dy), .dx = dx_operand, .resample = s.params});
  expect_sums<T>(dx_operand.values(), dx, "backward");
  EXPECT_TRUE(y_operand.guards_intact() && dx_operand.guards_intact());
}

class Resample : public ::testing::TestWithParam<ResampleCase> {};

TEST_P(Resample, EqualsItsDefinition) {
  check<float>(GetParam());
  check<double>(GetParam());
}

TEST_P(Resample, BitsDoNotDependOnTheNumberOfThreads) {
  const ResampleCase& s = GetParam();
  const Values x = random_values(s.x().numel(), 1), dy = random_values(s.y().numel(), 2);
  expect_same_for_any_threads([&] {
    const Guarded<float> y(s.y()), dx(s.x());
    run(kernels::ResampleForward{.x = Guarded<float>(s.x(), x), .y = y, .resample = s.params});
    run(kernels::ResampleBackward{.dy = Guarded<float>(s.y(), dy), .dx = dx, .resample = s.params});
    return std::vector{y.exact(), dx.exact()};
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, Resample, ::testing::ValuesIn(resample_cases()),
                         [](const auto& test) { return test.param.name; });

// What has no weight is not read: 0 * infinity would be NaN.
TEST(Resampling, LeavesOutWhatHasNoWeight) {
  const double inf = INFINITY;
  const Guarded<float> x({1, 1, 5, 1}, {inf, 1, 2, 3, inf}), y({1, 1, 3, 1});
  run(kernels::ResampleForward{
      .x = x, .y = y, .resample = {.mode = Resampling::bilinear, .align_corners = true}});
  EXPECT_EQ(y.values(), (Values{inf, 2, inf}));
}

// The corners are pixels of x to the last bit, whatever the sizes.
TEST(Resampling, KeepsAlignedCorners) {
  for (int64_t to = 2; to < 100; ++to) {
    const Guarded<float> x({1, 1, 3, 1}, {0.1, 0.2, 0.7}), y({1, 1, to, 1});
    run(kernels::ResampleForward{
        .x = x, .y = y, .resample = {.mode = Resampling::bilinear, .align_corners = true}});
    EXPECT_EQ(y.values().front(), double(0.1f)) << to;
    EXPECT_EQ(y.values().back(), double(0.7f)) << to;
  }
}

}  // namespace
}  // namespace adret
