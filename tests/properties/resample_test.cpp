// Images in other sizes.
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/resample.h>
#include <adret/autograd/ops/shape.h>

#include <algorithm>
#include <cmath>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

// x (N, H, W, C) and a size for it, at times the one it has.
struct Problem {
  Tensor x;
  Size2 size;

  // Many pixels in one direction at times: quotients of small numbers hide what rounding does.
  static int64_t pixels(Draw& draw) { return draw.integer(1, draw.chance(0.1) ? 60 : 8); }

  explicit Problem(Draw& draw)
      : x(draw.numbers({draw.integer(0, 2), pixels(draw), pixels(draw), draw.integer(0, 3)})),
        size{pixels(draw), pixels(draw)} {
    if (draw.chance(0.2)) size.h = x.size(1);
    if (draw.chance(0.2)) size.w = x.size(2);
  }
  Shape y() const { return {x.size(0), size.h, size.w, x.size(3)}; }
};

template <class Call>
void expect_resampled(Draw& draw, const Problem& p, const Array& y, Call call) {
  expect_array(call(p.x.to(draw.wide())), y);
  // A size that stays gives x itself back.
  expect_slope([&](const Inputs& in) { return call(in[0].reshape(in[0].shape())); }, {p.x}, draw);
}

TEST(ResampleProperties, Nearest) {
  for_random_cases("interpolate", [](Draw& draw) {
    const Problem p(draw);
    const Array x(p.x);
    const Array y = tabulate(p.y(), [&](Index at) {
      at[1] = at[1] * p.x.size(1) / p.size.h;
      at[2] = at[2] * p.x.size(2) / p.size.w;
      return x.at(at);
    });
    expect_resampled(draw, p, y, [&](const Tensor& x) { return interpolate(x, p.size); });
  });
}

// i * size / size is i, which (i * size) * (1 / size) is not always.
TEST(ResampleProperties, ToTheSizeThatItHasIsTheSame) {
  for (int64_t size = 1; size <= 130; ++size) {
    const Tensor x = sequence({1, size, 1, 1}), column = broadcast_to(x, {1, size, 2, 1});
    expect_same(interpolate(column, {size, 1}), x);
    expect_array(adaptive_avg_pool2d(column, {size, 1}), x);
  }
}

// Where pixel i of `to` lies among `from` pixels.
double position(int64_t i, int64_t from, int64_t to, bool align_corners) {
  if (align_corners) return to > 1 ? double(i) * double(from - 1) / double(to - 1) : 0;
  return std::clamp((double(i) + 0.5) * double(from) / double(to) - 0.5, 0.0, double(from - 1));
}

TEST(ResampleProperties, Bilinear) {
  for_random_cases("interpolate", [](Draw& draw) {
    const Problem p(draw);
    const bool align_corners = draw.chance();
    const Array x(p.x);
    const Array y = tabulate(p.y(), [&](const Index& at) {
      const double row = position(at[1], p.x.size(1), p.size.h, align_corners);
      const double column = position(at[2], p.x.size(2), p.size.w, align_corners);
      double sum = 0;
      for (int64_t i = 0; i < p.x.size(1); ++i) {
        for (int64_t j = 0; j < p.x.size(2); ++j) {
          sum += std::max(0.0, 1 - std::abs(row - double(i))) *
                 std::max(0.0, 1 - std::abs(column - double(j))) * x.at({at[0], i, j, at[3]});
        }
      }
      return sum;
    });
    expect_resampled(draw, p, y, [&](const Tensor& x) {
      return interpolate(x, p.size,
                         {.mode = Interpolation::bilinear, .align_corners = align_corners});
    });
  });
}

// A sequence or a volume, and another size for each of its directions.
struct Places {
  Tensor x;
  Shape y;

  Places(Draw& draw, int directions) {
    Shape before{draw.integer(0, 2)};
    y = before;
    for (int d = 1; d <= directions; ++d) {
      before = before.inserted(d, draw.integer(1, 5));
      y = y.inserted(d, draw.chance(0.2) ? before[d] : draw.integer(1, 6));
    }
    const int64_t channels = draw.integer(0, 3);
    x = draw.numbers(before.inserted(directions + 1, channels));
    y = y.inserted(directions + 1, channels);
  }

  // Each element of y as a sum over the elements of x, a product of weights for each direction.
  Array resampled(const InterpolateOptions& options) const {
    const Array in(x);
    const std::vector<Index> all = indices_of(x.shape());
    return tabulate(y, [&](const Index& to) {
      double sum = 0;
      for (const Index& from : all) {
        double share = from.front() == to.front() && from.back() == to.back();
        for (int d = 1; d < y.rank() - 1; ++d) {
          const int64_t i = to[size_t(d)], j = from[size_t(d)], size = x.size(d);
          share *= options.mode == Interpolation::nearest
                       ? j == i * size / y[d]
                       : std::max(0.0, 1 - std::abs(position(i, size, y[d], options.align_corners) -
                                                    double(j)));
        }
        sum += share * in.at(from);
      }
      return sum;
    });
  }
};

template <class Call>
void expect_places(Draw& draw, int directions, Call call) {
  const Places p(draw, directions);
  const Interpolation mode = draw.chance(0.3) ? Interpolation::nearest : Interpolation::linear;
  const InterpolateOptions options{.mode = mode,
                                   .align_corners = mode == Interpolation::linear && draw.chance()};
  expect_array(call(p.x.to(draw.wide()), p.y, options), p.resampled(options));
  expect_slope([&](const Inputs& in) { return call(in[0].reshape(in[0].shape()), p.y, options); },
               {p.x}, draw);
}

TEST(ResampleProperties, OfSequencesAndVolumes) {
  for_random_cases("interpolate1d", [](Draw& draw) {
    expect_places(draw, 1, [](const Tensor& x, const Shape& y, const InterpolateOptions& options) {
      return interpolate1d(x, y[1], options);
    });
  });
  for_random_cases("interpolate3d", [](Draw& draw) {
    expect_places(draw, 3, [](const Tensor& x, const Shape& y, const InterpolateOptions& options) {
      return interpolate3d(x, {y[1], y[2], y[3]}, options);
    });
  });
}

TEST(ResampleProperties, PixelShuffle) {
  for_random_cases("pixel_shuffle", [](Draw& draw) {
    const int64_t factor = draw.integer(1, 3), channels = draw.integer(1, 3);
    const Shape shape{draw.integer(0, 2), draw.size(), draw.size(), channels * factor * factor};
    const Tensor x = draw.numbers(shape);
    const Array in(x);
    const Array y =
        tabulate({shape[0], shape[1] * factor, shape[2] * factor, channels}, [&](const Index& at) {
          const int64_t channel =
              at[3] * factor * factor + at[1] % factor * factor + at[2] % factor;
          return in.at({at[0], at[1] / factor, at[2] / factor, channel});
        });
    expect_array(pixel_shuffle(x, factor), y);
    expect_slope([&](const Inputs& in) { return pixel_shuffle(in[0], factor); }, {x}, draw);
  });
  for_random_cases("pixel_unshuffle", [](Draw& draw) {
    const int64_t factor = draw.integer(1, 3), h = draw.size(), w = draw.size();
    const int64_t c = draw.integer(1, 3);
    const Tensor x = draw.numbers({draw.integer(0, 2), h * factor, w * factor, c});
    const Array in(x);
    const Array y = tabulate({x.size(0), h, w, c * factor * factor}, [&](const Index& at) {
      const int64_t within = at[3] % (factor * factor);
      return in.at({at[0], at[1] * factor + within / factor, at[2] * factor + within % factor,
                    at[3] / (factor * factor)});
    });
    expect_array(pixel_unshuffle(x, factor), y);
    expect_same(pixel_shuffle(pixel_unshuffle(x, factor), factor), x);
    expect_slope([&](const Inputs& in) { return pixel_unshuffle(in[0], factor); }, {x}, draw);
  });
}

}  // namespace
}  // namespace adret
