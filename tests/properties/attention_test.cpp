// Scaled dot-product attention against its definition: large scores, lengths that are no multiple
// of a tile, rows that see nothing.
#include <adret/autograd/ops/attention.h>
#include <adret/autograd/ops/shape.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

constexpr double inf = std::numeric_limits<double>::infinity();

struct Sizes {
  int64_t samples, queries, keys, heads, width;
};

// Operands and options of a call; the mask is full, (N, H, T, S), in `visible` and `added`.
struct Problem {
  Sizes size;
  Tensor q, k, v;
  AttentionOptions options;
  Array visible, added;

  Problem(Draw& draw, const Sizes& size, double largest);

 private:
  void mask(Draw& draw);
};

Problem::Problem(Draw& draw, const Sizes& s, double largest)
    : size(s),
      visible(Shape{s.samples, s.heads, s.queries, s.keys}, 1),
      added(Shape{s.samples, s.heads, s.queries, s.keys}, 0) {
  q = draw.numbers({s.samples, s.queries, s.heads, s.width}, DType::f64, -largest, largest);
  k = draw.numbers({s.samples, s.keys, s.heads, s.width});
  v = draw.numbers({s.samples, s.keys, s.heads, s.width});
  if (draw.chance()) options.scale = draw.number(0.1, 1);
  options.causal = s.queries == s.keys && draw.chance(0.3);
  if (draw.chance(0.3)) {
    options.lengths =
        draw.integers({s.samples}, 0, s.keys, draw.chance() ? DType::i32 : DType::i64);
  }
  if (draw.chance(0.6)) mask(draw);
}

// Of all or of the last two dimensions, some stretched; every fifth row is hidden throughout.
void Problem::mask(Draw& draw) {
  Shape shape = visible.shape;
  for (int d = 0; d < 3; ++d) shape = draw.chance() ? shape : shape.with(d, 1);
  if (draw.chance(0.3)) shape = {shape[2], shape[3]};
  const bool is_boolean = draw.chance();
  Array values(shape, 1);
  for (const Index& at : indices_of(shape)) {
    const bool seen = at[at.size() - 2] % 5 != 4 && draw.chance(0.7);
    const double hides = draw.one_of<double>({-inf, -inf, -1e4, -1e9});
    values.at(at) = is_boolean ? double(seen) : seen ? draw.number(-2, 2) : hides;
  }
  options.mask = Tensor::from(values.values, shape);
  if (is_boolean) options.mask = options.mask.to(DType::boolean);
  for (const Index& at : indices_of(visible.shape)) {
    if (is_boolean) {
      visible.at(at) = values.at(at);
    } else {  // finite ones hide as well, but beside others that are hidden so
      visible.at(at) = values.at(at) > -inf;
      added.at(at) = std::max(values.at(at), -4096.0);
    }
  }
}

Array by_definition(const Problem& p) {
  const Array q(p.q), k(p.k), v(p.v);
  const Array lengths(p.options.lengths.defined() ? Array(p.options.lengths)
                                                  : Array(Shape{1}, double(p.size.keys)));
  const double scale = p.options.scale.value_or(1 / std::sqrt(double(p.size.width)));
  Array y(p.q.shape());
  std::vector<double> weights(size_t(p.size.keys));
  for (const Index& row : indices_of({p.size.samples, p.size.heads, p.size.queries})) {
    const int64_t n = row[0], h = row[1], t = row[2];
    double most = -inf, total = 0;
    for (int64_t s = 0; s < p.size.keys; ++s) {
      double score = 0;
      for (int64_t d = 0; d < p.size.width; ++d) score += q.at({n, t, h, d}) * k.at({n, s, h, d});
      const bool seen = p.visible.at({n, h, t, s}) != 0 && double(s) < lengths.at({n}) &&
                        (!p.options.causal || s <= t);
      weights[size_t(s)] = seen ? scale * score + p.added.at({n, h, t, s}) : -inf;
      most = std::max(most, weights[size_t(s)]);
    }
    if (most == -inf) continue;  // sees nothing: 0
    for (double& w : weights) total += w = std::exp(w - most);
    for (int64_t s = 0; s < p.size.keys; ++s) {
      for (int64_t d = 0; d < p.size.width; ++d) {
        y.at({n, t, h, d}) += weights[size_t(s)] / total * v.at({n, s, h, d});
      }
    }
  }
  return y;
}

AttentionOptions in_dtype(AttentionOptions options, DType dtype) {
  if (options.mask.defined() && options.mask.dtype() != DType::boolean) {
    options.mask = options.mask.to(dtype);
  }
  return options;
}

void expect_attended(Draw& draw, const Problem& p) {
  const Array y = by_definition(p);
  expect_array(scaled_dot_product_attention(p.q, p.k, p.v, p.options), y, 1e-9);
  const DType f32 = DType::f32;
  expect_array(
      scaled_dot_product_attention(p.q.to(f32), p.k.to(f32), p.v.to(f32), in_dtype(p.options, f32)),
      y, 1e-3);
  expect_slope(
      [&](const Inputs& in) {
        return scaled_dot_product_attention(in[0], in[1], in[2], p.options);
      },
      {p.q, p.k, p.v}, draw, 1e-5);
}

TEST(AttentionProperties, OfSmallProblemsWithSizesOfOneAndNone) {
  for_random_cases("scaled_dot_product_attention", [](Draw& draw) {
    const int64_t queries = draw.size();
    const Sizes size{draw.integer(0, 2), queries, draw.chance() ? queries : draw.size(),
                     draw.integer(1, 2), draw.integer(1, 6)};
    expect_attended(draw, Problem(draw, size, 2));
  });
}

// Around the tiles of the kernels, which are 64 and 128 long.
TEST(AttentionProperties, OfLengthsThatAreNoMultipleOfATile) {
  for_random_cases(
      "scaled_dot_product_attention",
      [](Draw& draw) {
        const int64_t queries = draw.integer(1, 140);
        const Sizes size{1, queries, draw.chance() ? queries : draw.integer(60, 200), 1,
                         draw.one_of<int64_t>({1, 3, 8, 16})};
        expect_attended(draw, Problem(draw, size, 2));
      },
      30);
}

// Scores of hundreds of either sign: only their differences count.
TEST(AttentionProperties, OfLargeNegativeLogits) {
  for_random_cases("scaled_dot_product_attention", [](Draw& draw) {
    const int64_t queries = draw.integer(1, 9);
    const Sizes size{1, queries, draw.chance() ? queries : draw.integer(1, 9), 2, 4};
    Problem p(draw, size, 2);
    for (Index at : indices_of(p.q.shape())) {  // every score is about -1000
      p.q.span<double>()[size_t(((at[1]) * 2 + at[2]) * 4 + at[3])] -= at[3] == 0 ? 1000 : 0;
    }
    for (int64_t i = 0; i < p.k.numel(); i += 4) p.k.span<double>()[size_t(i)] = 1;
    const Array y = by_definition(p);
    expect_array(scaled_dot_product_attention(p.q, p.k, p.v, p.options), y, 1e-9);
    const DType f32 = DType::f32;
    expect_array(scaled_dot_product_attention(p.q.to(f32), p.k.to(f32), p.v.to(f32),
                                              in_dtype(p.options, f32)),
                 y, 5e-3);
  });
}

TEST(AttentionProperties, OfOneTensorIsThatOfItsParts) {
  for_random_cases("scaled_dot_product_attention_packed", [](Draw& draw) {
    const int64_t steps = draw.chance(0.1) ? draw.integer(60, 140) : draw.size();
    const Sizes size{draw.integer(0, 2), steps, steps, draw.integer(1, 2), draw.integer(1, 6)};
    const Problem p(draw, size, 2);
    const Tensor packed = stack({p.q, p.k, p.v}, 2);
    expect_array(scaled_dot_product_attention_packed(packed, p.options), by_definition(p), 1e-9);
    expect_slope(
        [&](const Inputs& in) { return scaled_dot_product_attention_packed(in[0], p.options); },
        {packed}, draw, 1e-5);
  });
}

}  // namespace
}  // namespace adret
