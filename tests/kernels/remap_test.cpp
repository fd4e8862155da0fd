// Padding, flipping, rolling and repeating, element by element.
#include <adret/core/kernels/kernel.h>
#include <adret/core/kernels/remap_plan.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using kernels::PadMode;

struct Problem {
  Shape x, y;
  kernels::RemapParams remap;
};

// The rule of each mode, a step at a time. -1: outside.
int64_t source(int64_t at, int64_t size, PadMode mode) {
  switch (mode) {
    case PadMode::constant: return at >= 0 && at < size ? at : -1;
    case PadMode::replicate: return std::clamp<int64_t>(at, 0, size - 1);
    case PadMode::circular:
      while (at < 0) at += size;
      while (at >= size) at -= size;
      return at;
    case PadMode::reflect: break;
  }
  return at < 0 ? -at : at >= size ? size - 1 - (at - (size - 1)) : at;
}

// One dimension at random.
struct Axis {
  int64_t x, y, start, step;
};
Axis random_axis(PadMode mode, std::mt19937& random) {
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  Axis axis{.x = 1 + (below(4) ? below(6) : below(40)), .y = 1, .start = 0, .step = 1};
  axis.y = axis.x;
  if (below(3) == 0) return axis;  // nothing happens
  const int64_t beyond = mode == PadMode::reflect ? axis.x - 1 : below(7);
  const int64_t low = -below(beyond + 1), high = axis.x + below(beyond + 1);
  axis.y = high - low;
  axis.start = low;
  if (below(2)) {
    axis.start = high - 1;
    axis.step = -1;
  }
  if (mode == PadMode::constant && below(4) == 0) {
    axis.step *= 2 + below(2);
    axis.y = (axis.y + std::abs(axis.step) - 1) / std::abs(axis.step);
  }
  return axis;
}

Problem random_problem(uint32_t seed) {
  std::mt19937 random(seed);
  Problem p;
  p.remap.mode = PadMode(random() % 4);
  p.remap.value = 0.375;
  const int rank = int(random() % 5);
  for (int d = 0; d < rank; ++d) {
    const Axis axis = random_axis(p.remap.mode, random);
    p.x = p.x.inserted(d, axis.x);
    p.y = p.y.inserted(d, axis.y);
    p.remap.start[size_t(d)] = axis.start;
    p.remap.step[size_t(d)] = axis.step;
  }
  return p;
}

// Places that a kernel takes for those of a single source are such, and nearly all that are.
TEST(Remap, KnowsMostPlacesOfASingleSource) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto mode = PadMode(random() % 4);
    const Axis a = random_axis(mode, random);
    const kernels::RemapAxis axis{a.x, a.y, a.start, a.step, mode};
    const kernels::RemapRange single = axis.single();
    int64_t missed = 0;
    for (int64_t place = 0; place < a.x; ++place) {
      const kernels::RemapPreimages from = axis.preimages(place);
      if (place < single.begin || place >= single.end) {
        missed += from.count == 1;
        continue;
      }
      ASSERT_EQ(from.count, 1) << seed;
      ASSERT_EQ(from[0], (place - a.start) * a.step) << seed;
    }
    const bool may_miss = mode == PadMode::circular || std::abs(a.step) > 1;
    EXPECT_LE(missed, may_miss ? a.x : 2) << seed;
  }
}

// The place in x of each element of y; -1: outside.
std::vector<int64_t> sources(const Problem& p) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < p.y.numel(); ++i) {
    int64_t rest = i, place = 0, stride = 1;
    bool exists = true;
    for (int d = p.y.rank() - 1; d >= 0; --d) {
      const int64_t at = p.remap.start[size_t(d)] + p.remap.step[size_t(d)] * (rest % p.y[d]);
      rest /= p.y[d];
      const int64_t from = source(at, p.x[d], p.remap.mode);
      exists &= from >= 0;
      place += from * stride;
      stride *= p.x[d];
    }
    result.push_back(exists ? place : -1);
  }
  return result;
}

void expect_remapped(const Problem& p) {
  const std::vector<double> x = eighths(p.x.numel(), 37, 5, 101);
  const std::vector<double> dy = eighths(p.y.numel(), 11, 3, 51);
  std::vector<double> y, dx(x.size(), 0.0);
  const std::vector<int64_t> from = sources(p);
  for (size_t i = 0; i < from.size(); ++i) {
    y.push_back(from[i] < 0 ? p.remap.value : x[size_t(from[i])]);
    if (from[i] >= 0) dx[size_t(from[i])] += dy[i];
  }
  const Guarded<float> x_operand(p.x, x), y_operand(p.y), dy_operand(p.y, dy), dx_operand(p.x);
  run(kernels::Remap{.x = x_operand, .y = y_operand, .remap = p.remap});
  expect_close(y_operand.values(), y, {}, "y");
  EXPECT_TRUE(y_operand.guards_intact());
  run(kernels::RemapBackward{.dy = dy_operand, .dx = dx_operand, .remap = p.remap});
  expect_close(dx_operand.values(), dx, {}, "dx");
  EXPECT_TRUE(dx_operand.guards_intact());
}

TEST(Remap, DoesAsALoopOverElements) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Problem p = random_problem(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": x " + to_string(p.x) + ", y " +
                 to_string(p.y) + ", " + to_string(p.remap, p.x.rank()));
    expect_remapped(p);
    if (testing::Test::HasFailure()) return;
  }
}

// Rows that are moved in large units, and many elements.
TEST(Remap, MovesRowsOfAnyWidth) {
  for (int64_t columns : {1, 2, 4, 6, 8, 64}) {
    Problem p{.x = {2, 20, 30, columns}, .y = {2, 24, 33, columns}};
    p.remap.start = {0, -2, -1, 0};
    p.remap.step = {1, 1, 1, 1};
    for (PadMode mode :
         {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular}) {
      p.remap.mode = mode;
      expect_remapped(p);
    }
  }
}

TEST(Remap, AddsUpAllThatComesFromOnePlace) {
  Problem p{.x = {2, 3}, .y = {2000, 33}};
  p.remap.step = {1, 1};
  p.remap.mode = PadMode::circular;
  expect_remapped(p);
  p.remap.start = {-1000, -30};
  p.remap.mode = PadMode::replicate;
  expect_remapped(p);
}

TEST(Remap, TakesEveryDtype) {
  const Tensor x = Tensor::from<int64_t>({1, int64_t(1) << 40}, {2});
  Tensor y = Tensor::empty({4}, {.dtype = DType::i64});
  kernels::Remap call{.x = x, .y = y};
  call.remap.start = {-1};
  call.remap.step = {1};
  call.remap.value = -3;
  run(call);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{-3, 1, int64_t(1) << 40, -3}));
  const Tensor bytes = Tensor::from<uint8_t>({1, 2, 3, 4, 5, 6}, {1, 6});
  Tensor padded = Tensor::empty({2, 6}, {.dtype = DType::u8});
  kernels::Remap rows{.x = bytes, .y = padded};
  rows.remap.step = {1, 1};
  rows.remap.value = 200;
  run(rows);
  EXPECT_EQ(padded.to_vector<uint8_t>(),
            (std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 200, 200, 200, 200, 200, 200}));
}

}  // namespace
}  // namespace adret
