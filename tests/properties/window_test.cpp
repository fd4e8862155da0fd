// Convolutions and pooling of sequences, images and volumes: values and gradients against loops
// over the taps of each window.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/resample.h>

#include <algorithm>
#include <array>
#include <span>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

// -- sizes -------------------------------------------------------------------------------------

// One direction. Window i begins at element i stride - before.
struct Line {
  int64_t input = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, output = 1;
  int64_t more = 0;  // output_padding

  int64_t place(int64_t window, int64_t tap) const {
    return window * stride + tap * dilation - before;
  }
};

// Depth, height and width; of images and sequences the first ones are of one element.
using Lines = std::array<Line, 3>;

// Multiples of 1/16 in -1..1, exact in sums; few of them, so that some are equal.
Tensor sixteenths(Draw& draw, const Shape& shape) {
  Values values(size_t(shape.numel()));
  for (double& v : values) v = double(draw.integer(-16, 16)) / 16;
  return leaf(values, shape);
}

// f(inputs) and, of f32, the same values; gradients of the sum that gradients() takes.
void expect_loops(const TestFunction& f, const Inputs& inputs, const Shape& shape, const Values& y,
                  const std::vector<Values>& derivatives) {
  Inputs narrow;
  for (const Tensor& input : inputs) narrow.push_back(input.detach().to(DType::f32));
  expect_values(f(narrow), shape, y, 1e-4);
  const Tensor result = f(inputs);
  expect_values(result, shape, y, 1e-10);
  const Inputs found = gradients(result, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_values(found[i], inputs[i].shape(), derivatives[i], 1e-10);
  }
}

Size3 sizes_of(const Lines& lines, int64_t Line::*member) {
  return {lines[0].*member, lines[1].*member, lines[2].*member};
}

// What a function of `directions` directions takes.
template <class Size>
Size last_of(Size3 sizes);
template <>
int64_t last_of(Size3 sizes) {
  return sizes.w;
}
template <>
Size2 last_of(Size3 sizes) {
  return sizes.plane();
}
template <>
Size3 last_of(Size3 sizes) {
  return sizes;
}

Shape shape_of(int directions, int64_t first, Size3 sizes, int64_t last) {
  switch (directions) {
    case 1: return {first, sizes.w, last};
    case 2: return {first, sizes.h, sizes.w, last};
    default: return {first, sizes.d, sizes.h, sizes.w, last};
  }
}

// f(place in the batch and all outputs, place in the batch and all inputs, place in the kernel) for
// every tap that lies inside.
template <class F>
void for_each_tap(int64_t n, const Lines& lines, F f) {
  const auto& [d, h, w] = lines;
  for (int64_t y = 0; y < n * d.output * h.output * w.output; ++y) {
    const std::array window = {y / (w.output * h.output) % d.output, y / w.output % h.output,
                               y % w.output};
    const int64_t sample = y / (w.output * h.output * d.output);
    for (int64_t tap = 0; tap < d.kernel * h.kernel * w.kernel; ++tap) {
      const int64_t i = d.place(window[0], tap / (h.kernel * w.kernel));
      const int64_t j = h.place(window[1], tap / w.kernel % h.kernel);
      const int64_t k = w.place(window[2], tap % w.kernel);
      if (i < 0 || i >= d.input || j < 0 || j >= h.input || k < 0 || k >= w.input) continue;
      f(y, ((sample * d.input + i) * h.input + j) * w.input + k, tap);
    }
  }
}

// -- convolutions ------------------------------------------------------------------------------

struct Conv {
  int directions;
  bool transposed, same, biased;
  Activation activation;
  Lines lines;  // of a transposed one, input and output changed round
  int64_t n, channels, outputs, groups;

  Shape x() const {
    const auto member = transposed ? &Line::output : &Line::input;
    return shape_of(directions, n, sizes_of(lines, member), channels);
  }
  Shape y() const {
    const auto member = transposed ? &Line::input : &Line::output;
    return shape_of(directions, n, sizes_of(lines, member), outputs);
  }
  Shape weight() const {
    const auto [first, last] =
        transposed ? std::pair(channels, outputs / groups) : std::pair(outputs, channels / groups);
    return shape_of(directions, first, sizes_of(lines, &Line::kernel), last);
  }
};

Conv random_conv(Draw& draw, int directions, bool transposed) {
  Conv c{.directions = directions,
         .transposed = transposed,
         .same = !transposed && draw.chance(0.25),
         .biased = draw.chance(),
         .activation = !transposed && draw.chance(0.3) ? Activation::relu : Activation::none,
         .n = draw.integer(0, 2),
         .groups = draw.integer(1, 2)};
  c.channels = c.groups * draw.integer(1, 2);
  c.outputs = c.groups * draw.integer(1, 2);
  for (int i = 3 - c.directions; i < 3; ++i) {
    Line& line = c.lines[size_t(i)];
    line.kernel = draw.integer(1, 3);
    line.dilation = draw.integer(1, 2);
    line.stride = c.same ? 1 : draw.integer(1, 3);
    const int64_t extent = line.dilation * (line.kernel - 1) + 1;
    line.before = c.same ? (extent - 1) / 2 : draw.integer(0, 2);
    line.after = c.same ? extent - 1 - line.before : line.before;
    if (transposed) {
      line.more = draw.integer(0, line.stride - 1);
      const int64_t taken = extent + line.more - 2 * line.before;
      line.output = draw.integer(taken < 1 ? 5 : 1, 5);
      line.input = (line.output - 1) * line.stride + taken;
    } else {
      line.input = draw.integer(std::max<int64_t>(1, extent - line.before - line.after), 6);
      line.output = (line.input + line.before + line.after - extent) / line.stride + 1;
    }
  }
  return c;
}

template <class Size, class Function, class Options>
Tensor convolved(const Conv& c, const std::vector<Tensor>& in, Function function, Options options) {
  options.stride = last_of<Size>(sizes_of(c.lines, &Line::stride));
  options.padding = last_of<Size>(sizes_of(c.lines, &Line::before));
  options.dilation = last_of<Size>(sizes_of(c.lines, &Line::dilation));
  options.groups = c.groups;
  if constexpr (requires { options.output_padding; }) {
    options.output_padding = last_of<Size>(sizes_of(c.lines, &Line::more));
  } else {
    options.activation = c.activation;
    if (c.same) options.padding = Pad::same;
  }
  return function(in[0], in[1], c.biased ? in[2] : Tensor(), options);
}

Tensor convolved(const Conv& c, const std::vector<Tensor>& in) {
  if (c.transposed) {
    switch (c.directions) {
      case 1: return convolved<int64_t>(c, in, conv_transpose1d, ConvTranspose1dOptions{});
      case 2: return convolved<Size2>(c, in, conv_transpose2d, ConvTranspose2dOptions{});
      default: return convolved<Size3>(c, in, conv_transpose3d, ConvTranspose3dOptions{});
    }
  }
  switch (c.directions) {
    case 1: return convolved<int64_t>(c, in, conv1d, Conv1dOptions{});
    case 2: return convolved<Size2>(c, in, conv2d, Conv2dOptions{});
    default: return convolved<Size3>(c, in, conv3d, Conv3dOptions{});
  }
}

// f(place in y, place in x, place in the weight) for every product.
template <class F>
void for_each_product(const Conv& c, F f) {
  const int64_t taps =
      sizes_of(c.lines, &Line::kernel).d * sizes_of(c.lines, &Line::kernel).plane().area();
  const int64_t in = c.channels / c.groups, out = c.outputs / c.groups;
  for_each_tap(c.n, c.lines, [&](int64_t window, int64_t place, int64_t tap) {
    for (int64_t o = 0; o < c.outputs; ++o) {
      for (int64_t k = 0; k < in; ++k) {
        const int64_t i = o / out * in + k;
        if (c.transposed) {
          f(place * c.outputs + o, window * c.channels + i, (i * taps + tap) * out + o % out);
        } else {
          f(window * c.outputs + o, place * c.channels + i, (o * taps + tap) * in + k);
        }
      }
    }
  });
}

void expect_convolution(const Conv& c, Draw& draw) {
  Inputs in = {sixteenths(draw, c.x()), sixteenths(draw, c.weight())};
  if (c.biased) in.push_back(sixteenths(draw, {c.outputs}));
  const Values x = in[0].to_vector<double>(), w = in[1].to_vector<double>();
  const Values b = c.biased ? in[2].to_vector<double>() : Values(size_t(c.outputs));
  Values y(size_t(c.y().numel())), dy = sequence(c.y(), 3).to_vector<double>();
  Values dx(x.size()), dw(w.size()), db(b.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = b[i % b.size()];
  for_each_product(c, [&](int64_t iy, int64_t ix, int64_t iw) {
    y[size_t(iy)] += x[size_t(ix)] * w[size_t(iw)];
  });
  for (size_t i = 0; i < y.size(); ++i) {
    if (c.activation == Activation::relu && y[i] <= 0) y[i] = dy[i] = 0;
    db[i % b.size()] += dy[i];
  }
  for_each_product(c, [&](int64_t iy, int64_t ix, int64_t iw) {
    dx[size_t(ix)] += dy[size_t(iy)] * w[size_t(iw)];
    dw[size_t(iw)] += dy[size_t(iy)] * x[size_t(ix)];
  });
  expect_loops([&](const Inputs& inputs) { return convolved(c, inputs); }, in, c.y(), y,
               {dx, dw, db});
}

TEST(WindowLoops, GiveConvolutions) {
  constexpr struct {
    const char* name;
    int directions;
    bool transposed;
  } functions[] = {{"conv1d", 1, false},          {"conv2d", 2, false},
                   {"conv3d", 3, false},          {"conv_transpose1d", 1, true},
                   {"conv_transpose2d", 2, true}, {"conv_transpose3d", 3, true}};
  for (const auto& function : functions) {
    for_random_cases(function.name, [&](Draw& draw) {
      expect_convolution(random_conv(draw, function.directions, function.transposed), draw);
    });
  }
}

// -- pooling -----------------------------------------------------------------------------------

struct Pooling {
  int directions;
  bool takes_mean, ceil_mode = false, counts_padding = false;
  Lines lines;
  int64_t n, channels;

  Shape x() const { return shape_of(directions, n, sizes_of(lines, &Line::input), channels); }
  Shape y() const { return shape_of(directions, n, sizes_of(lines, &Line::output), channels); }
};

// A row of the tables below.
struct Function {
  const char* name;
  int directions;
  bool takes_mean;
};

Pooling random_pooling(Draw& draw, const Function& function) {
  Pooling p{.directions = function.directions,
            .takes_mean = function.takes_mean,
            .ceil_mode = draw.chance(),
            .counts_padding = draw.chance(),
            .n = draw.integer(0, 2),
            .channels = draw.integer(1, 3)};
  for (int i = 3 - p.directions; i < 3; ++i) {
    Line& line = p.lines[size_t(i)];
    line.kernel = draw.integer(1, 4);
    line.stride = draw.integer(1, 3);
    line.before = line.after = draw.integer(0, line.kernel / 2);
    const int64_t room = draw.integer(0, 6);
    line.input = std::max<int64_t>(1, room + line.kernel - 2 * line.before);
    // Windows that fit, and in ceil mode those that hang over and begin before the padding's end.
    const int64_t end = line.input + line.before;
    const int64_t last = p.ceil_mode ? end - 1 : end + line.after - line.kernel;
    const int64_t most = line.input + 2 * line.before - line.kernel + line.stride - 1;
    line.output = std::min(last, most) / line.stride + 1;
  }
  return p;
}

template <class Size>
Tensor pooled(const Pooling& p, const Tensor& x,
              Tensor (*function)(const Tensor&, Size, const PoolOptions<Size>&)) {
  return function(x, last_of<Size>(sizes_of(p.lines, &Line::kernel)),
                  {.stride = last_of<Size>(sizes_of(p.lines, &Line::stride)),
                   .padding = last_of<Size>(sizes_of(p.lines, &Line::before)),
                   .ceil_mode = p.ceil_mode,
                   .count_include_pad = p.counts_padding});
}

Tensor pooled(const Pooling& p, const Tensor& x) {
  switch (p.directions) {
    case 1: return pooled<int64_t>(p, x, p.takes_mean ? avg_pool1d : max_pool1d);
    case 2: return pooled<Size2>(p, x, p.takes_mean ? avg_pool2d : max_pool2d);
    default: return pooled<Size3>(p, x, p.takes_mean ? avg_pool3d : max_pool3d);
  }
}

// The elements of a window inside the padded input.
int64_t padded_taps(const Pooling& p, int64_t window) {
  int64_t taps = 1;
  for (int i = 2; i >= 0; --i) {
    const Line& line = p.lines[size_t(i)];
    const int64_t begin = window % line.output * line.stride - line.before;
    taps *= std::min(begin + line.kernel, line.input + line.after) - begin;
    window /= line.output;
  }
  return taps;
}

struct Pooled {
  Values y, dx;
};

Pooled pool_by_loops(const Pooling& p, const Values& x, const Values& dy) {
  const auto count = size_t(p.y().numel());
  std::vector<std::vector<int64_t>> windows(count);
  for_each_tap(p.n, p.lines, [&](int64_t window, int64_t place, int64_t) {
    for (int64_t c = 0; c < p.channels; ++c) {
      windows[size_t(window * p.channels + c)].push_back(place * p.channels + c);
    }
  });
  Pooled result{Values(count), Values(x.size())};
  for (size_t i = 0; i < count; ++i) {
    const std::vector<int64_t>& places = windows[i];
    const auto value = [&](int64_t place) { return x[size_t(place)]; };
    if (!p.takes_mean) {
      const int64_t winner = *std::ranges::max_element(places, {}, value);  // the first of equals
      result.y[i] = value(winner);
      result.dx[size_t(winner)] += dy[i];
      continue;
    }
    const auto divisor =
        double(p.counts_padding ? padded_taps(p, int64_t(i) / p.channels) : int64_t(places.size()));
    for (const int64_t place : places) {
      result.y[i] += value(place) / divisor;
      result.dx[size_t(place)] += dy[i] / divisor;
    }
  }
  return result;
}

TEST(WindowLoops, GivePooling) {
  constexpr Function functions[] = {{"avg_pool1d", 1, true},  {"avg_pool2d", 2, true},
                                    {"avg_pool3d", 3, true},  {"max_pool1d", 1, false},
                                    {"max_pool2d", 2, false}, {"max_pool3d", 3, false}};
  for (const Function& function : functions) {
    for_random_cases(function.name, [&](Draw& draw) {
      const Pooling p = random_pooling(draw, function);
      const Tensor x = sixteenths(draw, p.x());
      const auto [y, dx] =
          pool_by_loops(p, x.to_vector<double>(), sequence(p.y(), 3).to_vector<double>());
      expect_loops([&](const Inputs& in) { return pooled(p, in[0]); }, {x}, p.y(), y, {dx});
    });
  }
}

TEST(WindowLoops, GiveGlobalPooling) {
  constexpr Function functions[] = {{"global_avg_pool2d", 2, true},
                                    {"global_max_pool2d", 2, false}};
  for (const Function& function : functions) {
    for_random_cases(function.name, [&](Draw& draw) {
      Pooling p{.directions = 2,
                .takes_mean = function.takes_mean,
                .n = draw.integer(0, 3),
                .channels = draw.integer(1, 3)};
      for (Line& line : std::span(p.lines).subspan(1))
        line.input = line.kernel = draw.integer(1, 5);
      const Tensor x = sixteenths(draw, p.x());
      const auto [y, dx] = pool_by_loops(p, x.to_vector<double>(),
                                         sequence({p.n, p.channels}, 3).to_vector<double>());
      const auto pool = p.takes_mean ? global_avg_pool2d : global_max_pool2d;
      expect_loops([&](const Inputs& in) { return pool(in[0]); }, {x}, {p.n, p.channels}, y, {dx});
    });
  }
}

// -- areas -------------------------------------------------------------------------------------

int64_t begin_of(int64_t area, int64_t from, int64_t to) { return area * from / to; }
int64_t end_of(int64_t area, int64_t from, int64_t to) { return ((area + 1) * from + to - 1) / to; }

Tensor adapted(const Pooling& p, const Tensor& x) {
  const Size3 size = sizes_of(p.lines, &Line::output);
  switch (p.directions) {
    case 1: return (p.takes_mean ? adaptive_avg_pool1d : adaptive_max_pool1d)(x, size.w);
    case 2: return (p.takes_mean ? adaptive_avg_pool2d : adaptive_max_pool2d)(x, size.plane());
    default: return (p.takes_mean ? adaptive_avg_pool3d : adaptive_max_pool3d)(x, size);
  }
}

// The elements of each area, in row-major order.
std::vector<std::vector<int64_t>> areas_of(const Pooling& p) {
  const auto& [d, h, w] = p.lines;
  std::vector<std::vector<int64_t>> areas;
  for (int64_t y = 0; y < p.y().numel(); ++y) {
    const int64_t c = y % p.channels, window = y / p.channels;
    const int64_t a = window / (h.output * w.output) % d.output, b = window / w.output % h.output,
                  e = window % w.output, sample = window / (h.output * w.output * d.output);
    std::vector<int64_t>& area = areas.emplace_back();
    for (int64_t i = begin_of(a, d.input, d.output); i < end_of(a, d.input, d.output); ++i)
      for (int64_t j = begin_of(b, h.input, h.output); j < end_of(b, h.input, h.output); ++j)
        for (int64_t k = begin_of(e, w.input, w.output); k < end_of(e, w.input, w.output); ++k)
          area.push_back((((sample * d.input + i) * h.input + j) * w.input + k) * p.channels + c);
  }
  return areas;
}

TEST(WindowLoops, GiveAdaptivePooling) {
  constexpr Function functions[] = {
      {"adaptive_avg_pool1d", 1, true},  {"adaptive_avg_pool2d", 2, true},
      {"adaptive_avg_pool3d", 3, true},  {"adaptive_max_pool1d", 1, false},
      {"adaptive_max_pool2d", 2, false}, {"adaptive_max_pool3d", 3, false}};
  for (const Function& function : functions) {
    for_random_cases(function.name, [&](Draw& draw) {
      Pooling p{.directions = function.directions,
                .takes_mean = function.takes_mean,
                .n = draw.integer(0, 2),
                .channels = draw.integer(1, 3)};
      for (int i = 3 - p.directions; i < 3; ++i) {
        p.lines[size_t(i)].input = draw.integer(1, 7);
        p.lines[size_t(i)].output = draw.integer(1, 7);
      }
      const Tensor x = sixteenths(draw, p.x());
      const Values from = x.to_vector<double>(), dy = sequence(p.y(), 3).to_vector<double>();
      Values y(dy.size()), dx(from.size());
      const std::vector<std::vector<int64_t>> areas = areas_of(p);
      for (size_t i = 0; i < y.size(); ++i) {
        const auto value = [&](int64_t place) { return from[size_t(place)]; };
        const auto winner = *std::ranges::max_element(areas[i], {}, value);
        for (const int64_t place : areas[i]) {
          const double share =
              p.takes_mean ? 1 / double(areas[i].size()) : (place == winner ? 1.0 : 0.0);
          y[i] += share * value(place);
          dx[size_t(place)] += share * dy[i];
        }
      }
      expect_loops([&](const Inputs& in) { return adapted(p, in[0]); }, {x}, p.y(), y, {dx});
    });
  }
}

// Quotients that are whole, as 49 / 49, must not fall below by rounding.
TEST(WindowLoops, GiveEveryAreasEnds) {
  const std::vector<int64_t> sizes = {1, 2, 3, 5, 6, 7, 10, 15, 24, 49, 98, 147};
  for (const int64_t from : sizes) {
    Values places(static_cast<size_t>(from));
    for (size_t i = 0; i < places.size(); ++i) places[i] = double(i);
    const Tensor x = Tensor::from(places, {1, from, 1}).to(DType::f32);
    for (const int64_t to : sizes) {
      SCOPED_TRACE(fmt::format("{} to {}", from, to));
      Values first, last, mean;
      for (int64_t i = 0; i < to; ++i) {
        first.push_back(double(begin_of(i, from, to)));
        last.push_back(double(end_of(i, from, to) - 1));
        mean.push_back((first.back() + last.back()) / 2);
      }
      expect_values(interpolate(x.reshape({1, 1, from, 1}), {1, to}), {1, 1, to, 1}, first);
      expect_values(adaptive_max_pool1d(x, to), {1, to, 1}, last);
      expect_values(adaptive_avg_pool1d(x, to), {1, to, 1}, mean, 1e-3);
    }
  }
}

}  // namespace
}  // namespace adret
