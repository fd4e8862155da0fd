// Gathering and scattering, element by element.
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/close.h"
#include "tests/support/gradients.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using kernels::ScatterMode;

TEST(Gather, TakesRowsInAnyOrder) {
  const Tensor x = Tensor::from<int32_t>({0, 1, 10, 11, 20, 21}, {3, 2});
  const Tensor indices = Tensor::from<int64_t>({2, 0, 2, 1}, {4});
  Tensor y = Tensor::empty({4, 2}, {.dtype = DType::i32});
  run(kernels::Gather{.x = x, .indices = indices, .y = y});
  EXPECT_EQ(y.to_vector<int32_t>(), (std::vector<int32_t>{20, 21, 0, 1, 20, 21, 10, 11}));

  Tensor none = Tensor::empty({0, 2}, {.dtype = DType::i32});
  run(kernels::Gather{.x = x, .indices = Tensor::empty({0}, {.dtype = DType::i64}), .y = none});
  const Tensor narrow = Tensor::empty({3, 0});
  Tensor empty_rows = Tensor::empty({4, 0});
  run(kernels::Gather{.x = narrow, .indices = indices, .y = empty_rows});
}

TEST(Gather, GathersAlikeForAnyNumberOfThreads) {
  const Tensor x = sequence({1000, 100}).to(DType::f32);
  std::vector<int64_t> order(1000);
  for (size_t i = 0; i < order.size(); ++i) order[i] = int64_t(i * 37 % 1000);
  const Tensor indices = Tensor::from(order, {1000});
  expect_same_for_any_threads([&] {
    Tensor y = Tensor::empty({1000, 100});
    run(kernels::Gather{.x = x, .indices = indices, .y = y});
    return y.to_vector<float>();
  });
}

// -- any shape -----------------------------------------------------------------------------------

// A call of random sizes: `many` is (outer, size, inner), `few` (outer, count, inner), and indices
// lead from the places of `few` to those of `many`.
struct Problem {
  Shape many, few;
  int dim;
  Tensor indices;
};

int64_t product(const Shape& shape, int begin, int end) {
  int64_t result = 1;
  for (int d = begin; d < end; ++d) result *= shape[d];
  return result;
}

Tensor random_indices(const Shape& shape, int64_t size, std::mt19937& random) {
  std::vector<int64_t> values;
  const bool outside = random() % 4 == 0;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const int64_t beyond = outside && random() % 8 == 0 ? size + 1 : 0;
    values.push_back((random() % 2 ? 1 : -1) * beyond + int64_t(random() % uint64_t(size)));
  }
  const Tensor indices = Tensor::from(values, shape);
  return random() % 2 ? indices : indices.to(DType::i32);
}

Problem random_problem(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  Problem p;
  const int rank = int(below(4)) + 1;
  for (int d = 0; d < rank; ++d) p.many = p.many.inserted(d, below(below(3) ? 6 : 40) + 1);
  p.dim = int(below(rank));
  const int64_t count = below(4) ? below(30) : 100 + below(200);
  p.few = p.many.with(p.dim, count);
  const bool alike = rank == 1 || below(2);
  p.indices = random_indices(alike ? Shape{count} : p.few, p.many[p.dim], random);
  return p;
}

// f(place in few, place in many), that below 0 for an index outside, in the order of `few`.
template <class F>
void for_places(const Problem& p, F f) {
  const std::vector<int64_t> indices = p.indices.to(DType::i64).to_vector<int64_t>();
  const int64_t outer = product(p.many, 0, p.dim), size = p.many[p.dim], count = p.few[p.dim],
                inner = product(p.many, p.dim + 1, p.many.rank());
  const bool alike = p.indices.rank() == 1;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t c = 0; c < inner; ++c) {
        const int64_t place = (o * count + i) * inner + c;
        const int64_t index = indices[size_t(alike ? i : place)];
        const bool exists = index >= 0 && index < size;
        f(place, exists ? (o * size + index) * inner + c : -1);
      }
    }
  }
}

void expect_gathered(const Problem& p, uint32_t seed) {
  const std::vector<double> x = random_values(p.many.numel(), seed);
  std::vector<double> expected(size_t(p.few.numel()));
  for_places(p, [&](int64_t few, int64_t many) {
    expected[size_t(few)] = many < 0 ? std::numeric_limits<double>::quiet_NaN() : x[size_t(many)];
  });
  const Guarded<float> from(p.many, x), to(p.few);
  run(kernels::Gather{.x = from, .indices = p.indices, .y = to, .dim = p.dim});
  expect_close(to.values(), expected, {}, "gather");
  EXPECT_TRUE(to.guards_intact());
}

// Sums of eighths are exact in any order.
void expect_scattered(const Problem& p, ScatterMode mode) {
  const std::vector<double> x = eighths(p.few.numel(), 37, 5, 101);
  std::vector<double> expected = eighths(p.many.numel(), 11, 3, 51);
  const Guarded<float> from(p.few, x), to(p.many, expected);
  if (mode == ScatterMode::sum) std::ranges::fill(expected, 0.0);
  for_places(p, [&](int64_t few, int64_t many) {
    if (many < 0) return;
    const double before = mode == ScatterMode::assign ? 0 : expected[size_t(many)];
    expected[size_t(many)] = before + x[size_t(few)];
  });
  run(kernels::Scatter{.x = from, .indices = p.indices, .y = to, .dim = p.dim, .mode = mode});
  expect_close(to.values(), expected, {}, to_string(mode));
  EXPECT_TRUE(to.guards_intact());
}

TEST(GatherAndScatter, DoAsALoopOverElements) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem p = random_problem(seed);
    expect_gathered(p, seed);
    for (ScatterMode mode : {ScatterMode::assign, ScatterMode::add, ScatterMode::sum}) {
      expect_scattered(p, mode);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// Many sources of few rows, and rows as long as vectors.
TEST(Scatter, SumsManySourcesOfOneRow) {
  for (const auto& [rows, columns, sources] : {std::array<int64_t, 3>{1, 8, 1000},
                                               {2, 768, 4097},
                                               {50, 24, 3000},
                                               {3, 5, 20000},
                                               {2000, 1, 500},
                                               {1, 1, 63},
                                               {1, 1, 64},
                                               {1, 1, 65}}) {
    Problem p{.many = {rows, columns}, .few = {sources, columns}, .dim = 0};
    std::vector<int64_t> to;
    // Half of them go to the first row.
    for (int64_t i = 0; i < sources; ++i) to.push_back(i % 2 ? 0 : i * 7 % rows);
    p.indices = Tensor::from(to, {sources});
    expect_scattered(p, ScatterMode::sum);
    expect_scattered(p, ScatterMode::add);
    expect_scattered(p, ScatterMode::assign);
  }
}

// As gradients of extremes: lines in vectors, lines that are not, and lines side by side.
TEST(Scatter, SumsOneSourceOfEachLine) {
  std::mt19937 random(7);
  for (const auto& [many, dim] : {std::pair{Shape{300, 64}, 1},
                                  {Shape{7, 13}, 1},
                                  {Shape{3, 40, 5}, 1},
                                  {Shape{9, 4, 16}, 0},
                                  {Shape{1, 8}, 1}}) {
    const Shape few = many.with(dim, 1);
    const Problem p{
        .many = many, .few = few, .dim = dim, .indices = random_indices(few, many[dim], random)};
    expect_scattered(p, ScatterMode::sum);
    expect_scattered(p, ScatterMode::add);
    expect_scattered(p, ScatterMode::assign);
  }
}

TEST(Scatter, AddsIntegers) {
  const Tensor x = Tensor::from<int64_t>({1, int64_t(1) << 40, 3}, {3});
  Tensor y = Tensor::from<int64_t>({5, 6}, {2});
  const Tensor indices = Tensor::from({1, 1, 0}, {3});
  run(kernels::Scatter{.x = x, .indices = indices, .y = y});
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{8, (int64_t(1) << 40) + 7}));
}

TEST(Scatter, SumsNothing) {
  Tensor y = Tensor::full({3, 2}, 5);
  const Tensor none = Tensor::empty({0}, {.dtype = DType::i64}), x = Tensor::empty({0, 2});
  run(kernels::Scatter{.x = x, .indices = none, .y = y, .mode = ScatterMode::add});
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(6, 5));
  run(kernels::Scatter{.x = x, .indices = none, .y = y, .mode = ScatterMode::sum});
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(6, 0));
}

TEST(Scatter, ScattersAlikeForAnyNumberOfThreads) {
  const Tensor x = sequence({3000, 300}).to(DType::f32);
  std::vector<int64_t> to(3000);
  for (size_t i = 0; i < to.size(); ++i) to[i] = int64_t(i * 37 % 100);
  const Tensor indices = Tensor::from(to, {3000});
  expect_same_for_any_threads([&] {
    Tensor y = Tensor::empty({200, 300});
    run(kernels::Scatter{.x = x, .indices = indices, .y = y, .mode = ScatterMode::sum});
    return y.to_vector<float>();
  });
}

}  // namespace
}  // namespace adret
