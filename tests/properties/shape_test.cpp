// Functions that rearrange, join, cut, pad and repeat, of any dtype.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/pad.h>
#include <adret/autograd/ops/shape.h>

#include <algorithm>
#include <numeric>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

int from_front(int dim, int rank) { return dim < 0 ? dim + rank : dim; }

// Whether f(x) has at each index what from(index) says x has, and f's slope.
template <class F, class From>
void expect_moved(Draw& draw, const Shape& shape, const Shape& to, F f, From from) {
  const Tensor x = draw.anything(shape);
  const Array in(x);
  const Tensor y = f(x);
  EXPECT_EQ(y.dtype(), x.dtype());
  expect_array(y, tabulate(to, [&](const Index& at) { return in.at(from(at)); }));
  // Times 1: a leaf may come back as it is.
  expect_slope([&](const Inputs& in) { return f(in[0] * 1); }, {draw.numbers(shape)}, draw);
}

TEST(ShapeProperties, Reshape) {
  for_random_cases("reshape", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    Index sizes = {1, 1, 1, 1};  // the same product, spread anew
    for (int64_t size : shape) sizes[size_t(draw.integer(0, 3))] *= size;
    const Shape to{std::span<const int64_t>(sizes)};
    if (shape.numel() > 0 && draw.chance()) sizes[size_t(draw.integer(0, 3))] = -1;
    const Tensor x = draw.anything(shape);
    const Tensor y = reshape(x, sizes);
    EXPECT_EQ(y.shape(), to);
    EXPECT_EQ(Array(y).values, Array(x).values);
    expect_slope([&](const Inputs& in) { return reshape(in[0], sizes); }, {draw.numbers(shape)},
                 draw);
  });
}

TEST(ShapeProperties, FlattenWritesImagesChannelByChannel) {
  for_random_cases("flatten", [](Draw& draw) {
    const Shape s = draw.shape(1, 4);
    const int64_t columns = s.rank() == 1 ? 1 : s.without(0).numel();
    const auto from = [&](const Index& at) {
      Index index(size_t(s.rank()), at[0]);
      int64_t rest = at[1];
      const std::vector<int> order =
          s.rank() == 4 ? std::vector<int>{2, 1, 3} : std::vector<int>{s.rank() - 1};
      if (s.rank() == 4) {
        for (int d : order) index[size_t(d)] = rest % s[d], rest /= s[d];
        return index;
      }
      for (int d = s.rank() - 1; d > 0; --d) index[size_t(d)] = rest % s[d], rest /= s[d];
      return index;
    };
    expect_moved(draw, s, {s[0], columns}, flatten, from);
  });
}

TEST(ShapeProperties, PermuteAndTranspose) {
  for_random_cases("permute", [](Draw& draw) {
    const Shape shape = draw.shape(0, 6);
    std::vector<int> order(size_t(shape.rank()));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[size_t(draw.integer(0, int64_t(i) - 1))]);
    }
    Shape to = shape;
    for (int d = 0; d < shape.rank(); ++d) to = to.with(d, shape[order[size_t(d)]]);
    std::vector<int> named = order;
    for (int& d : named) d -= draw.chance() ? shape.rank() : 0;
    expect_moved(
        draw, shape, to, [&](const Tensor& x) { return permute(x, named); },
        [&](const Index& at) {
          Index from = at;
          for (size_t d = 0; d < at.size(); ++d) from[size_t(order[d])] = at[d];
          return from;
        });
  });
  for_random_cases("transpose", [](Draw& draw) {
    const Shape shape = draw.shape(1, 5);
    const int a = draw.dim(shape), b = draw.dim(shape);
    const int first = from_front(a, shape.rank()), second = from_front(b, shape.rank());
    expect_moved(
        draw, shape, shape.with(first, shape[second]).with(second, shape[first]),
        [&](const Tensor& x) { return transpose(x, a, b); },
        [&](Index at) {
          std::swap(at[size_t(first)], at[size_t(second)]);
          return at;
        });
  });
}

TEST(ShapeProperties, Slice) {
  for_random_cases("slice", [](Draw& draw) {
    const Shape shape = draw.shape(1, 4);
    const int dim = draw.dim(shape), along = from_front(dim, shape.rank());
    const int64_t size = shape[along], begin = draw.integer(0, size),
                  end = draw.integer(begin, size);
    const int64_t named = begin > 0 && begin < size && draw.chance() ? begin - size : begin;
    expect_moved(
        draw, shape, shape.with(along, end - begin),
        [&](const Tensor& x) { return slice(x, dim, named, end); },
        [&](Index at) { return at[size_t(along)] += begin, at; });
  });
}

TEST(ShapeProperties, SqueezeUnsqueezeAndBroadcast) {
  for_random_cases("squeeze", [](Draw& draw) {
    Shape shape = draw.shape(1, 4);
    const int dim = draw.dim(shape), along = from_front(dim, shape.rank());
    shape = shape.with(along, 1);
    expect_moved(
        draw, shape, shape.without(along), [&](const Tensor& x) { return squeeze(x, dim); },
        [&](const Index& at) { return inserted(at, along, 0); });
  });
  for_random_cases("unsqueeze", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const Shape place = shape.inserted(0, 1);
    const int dim = draw.dim(place), along = from_front(dim, place.rank());
    expect_moved(
        draw, shape, shape.inserted(along, 1), [&](const Tensor& x) { return unsqueeze(x, dim); },
        [&](const Index& at) { return without(at, along); });
  });
  for_random_cases("broadcast_to", [](Draw& draw) {
    const Shape full = draw.shape(0, 4), shape = draw.stretched_to(full);
    expect_moved(
        draw, shape, full, [&](const Tensor& x) { return broadcast_to(x, full); },
        [](const Index& at) { return at; });
  });
}

// -- several tensors ----------------------------------------------------------

TEST(ShapeProperties, PartsMakeTheWholeAgain) {
  const auto expect_parts = [](Draw& draw, const std::vector<Tensor>& parts, const Tensor& x,
                               int dim, int64_t size) {
    int64_t rest = x.size(dim);
    for (const Tensor& part : parts) {
      EXPECT_EQ(part.size(dim), std::min(size, rest));
      rest -= part.size(dim);
    }
    EXPECT_EQ(rest, 0);
    expect_same(concatenate(parts, dim), x);
    static_cast<void>(draw);
  };
  for_random_cases("split", [&](Draw& draw) {
    const Tensor x = draw.anything(draw.shape(1, 4));
    const int dim = draw.dim(x.shape());
    const int64_t size = draw.integer(1, 8);
    expect_parts(draw, split(x, size, dim), x, dim, size);
    expect_slope([&](const Inputs& in) { return square(split(in[0], size, dim).front()); },
                 {draw.numbers(x.shape())}, draw);
  });
  for_random_cases("chunk", [&](Draw& draw) {
    const Tensor x = draw.anything(draw.shape(1, 4));
    const int dim = draw.dim(x.shape());
    const int64_t count = draw.integer(1, 8), size = (x.size(dim) + count - 1) / count;
    expect_parts(draw, chunk(x, count, dim), x, dim, std::max<int64_t>(1, size));
    expect_slope([&](const Inputs& in) { return square(chunk(in[0], count, dim).back()); },
                 {draw.numbers(x.shape())}, draw);
  });
}

TEST(ShapeProperties, StackAndUnbindAreInverse) {
  for_random_cases("stack", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const Shape place = shape.inserted(0, 1);
    const int dim = draw.dim(place), along = from_front(dim, place.rank());
    const DType dtype = draw.anything({}).dtype();
    Inputs layers, numbers;
    for (int64_t i = draw.integer(1, 4); i > 0; --i) {
      layers.push_back(draw.anything(shape).to(dtype));
      numbers.push_back(draw.numbers(shape));
    }
    std::vector<Array> in(layers.begin(), layers.end());
    const Shape to = shape.inserted(along, int64_t(layers.size()));
    expect_array(stack(layers, dim), tabulate(to, [&](const Index& at) {
                   return in[size_t(at[size_t(along)])].at(without(at, along));
                 }));
    expect_slope([&](const Inputs& in) { return stack(in, dim); }, numbers, draw);
  });
  for_random_cases("unbind", [](Draw& draw) {
    const Tensor x = draw.anything(draw.shape(1, 4));
    const int dim = draw.dim(x.shape()), along = from_front(dim, x.rank());
    const std::vector<Tensor> parts = unbind(x, dim);
    EXPECT_EQ(int64_t(parts.size()), x.size(dim));
    if (parts.empty()) return;
    expect_same(stack(parts, along), x);
    expect_slope([&](const Inputs& in) { return square(unbind(in[0], dim).back()); },
                 {draw.numbers(x.shape())}, draw);
  });
}

TEST(ShapeProperties, Concatenate) {
  for_random_cases("concatenate", [](Draw& draw) {
    const Shape shape = draw.shape(1, 4);
    const int dim = draw.dim(shape), along = from_front(dim, shape.rank());
    Inputs parts;
    std::vector<Array> in;
    Index begins;  // of the parts
    int64_t total = 0;
    for (int64_t i = draw.integer(1, 4); i > 0; --i) {
      parts.push_back(draw.numbers(shape.with(along, draw.size())));
      in.emplace_back(parts.back());
      begins.push_back(total);
      total += parts.back().size(along);
    }
    expect_array(concatenate(parts, dim), tabulate(shape.with(along, total), [&](Index at) {
                   int64_t& place = at[size_t(along)];
                   size_t part = in.size() - 1;
                   while (place < begins[part]) --part;
                   place -= begins[part];
                   return in[part].at(at);
                 }));
    expect_slope([&](const Inputs& in) { return concatenate(in, dim); }, parts, draw);
  });
}

// -- padding and repeating ----------------------------------------------------

// Where an element of a padded dimension comes from; -1: it is the constant.
int64_t source(int64_t place, int64_t size, PadMode mode) {
  if (place >= 0 && place < size) return place;
  switch (mode) {
    case PadMode::constant: return -1;
    case PadMode::replicate: return place < 0 ? 0 : size - 1;
    case PadMode::circular: return ((place % size) + size) % size;
    case PadMode::reflect: return place < 0 ? -place : 2 * (size - 1) - place;
  }
  return -1;
}

TEST(PadProperties, EveryModeAndNegativePaddings) {
  for_random_cases("pad", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const PadMode mode = draw.one_of<PadMode>(
        {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular});
    std::vector<Padding> paddings;
    Shape to = shape;
    for (int d = 0; d < shape.rank(); ++d) {
      const int64_t size = shape[d], most = mode == PadMode::constant ? 3
                                            : mode == PadMode::reflect
                                                ? std::min<int64_t>(size - 1, 3)
                                                : (size > 0 ? 3 : 0);
      Padding p{draw.integer(-size, std::max<int64_t>(0, most)), 0};
      p.after = draw.integer(std::max(-size, -size - p.before), std::max<int64_t>(0, most));
      paddings.push_back(p);
      to = to.with(d, size + p.before + p.after);
    }
    const PadOptions options{.mode = mode, .value = 1};
    const auto place_of = [&](Index at) {
      for (int d = 0; d < shape.rank(); ++d) {
        at[size_t(d)] = source(at[size_t(d)] - paddings[size_t(d)].before, shape[d], mode);
      }
      return at;
    };
    const Tensor x = draw.anything(shape);
    const Array in(x);
    expect_array(pad(x, paddings, options), tabulate(to, [&](const Index& at) {
                   const Index from = place_of(at);
                   return std::ranges::count(from, -1) ? 1 : in.at(from);
                 }));
    expect_slope([&](const Inputs& in) { return pad(in[0], paddings, options); },
                 {draw.numbers(shape)}, draw);
  });
}

TEST(PadProperties, FlipAndRoll) {
  for_random_cases("flip", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const std::vector<int> dims = draw.dims(shape);
    expect_moved(
        draw, shape, shape, [&](const Tensor& x) { return flip(x, dims); },
        [&](Index at) {
          for (int dim : dims) {
            int64_t& place = at[size_t(from_front(dim, shape.rank()))];
            place = shape[dim] - 1 - place;
          }
          return at;
        });
  });
  for_random_cases("roll", [](Draw& draw) {
    const Shape shape = draw.shape(0, 4);
    const std::vector<int> dims = draw.dims(shape);
    Index shifts;
    for (size_t i = 0; i < dims.size(); ++i) shifts.push_back(draw.integer(-10, 10));
    expect_moved(
        draw, shape, shape, [&](const Tensor& x) { return roll(x, shifts, dims); },
        [&](Index at) {
          for (size_t i = 0; i < dims.size(); ++i) {
            int64_t& place = at[size_t(from_front(dims[i], shape.rank()))];
            const int64_t size = shape[dims[i]];
            place = ((place - shifts[i]) % size + size) % size;
          }
          return at;
        });
  });
}

TEST(PadProperties, Repeats) {
  for_random_cases("repeat", [](Draw& draw) {
    const Shape shape = draw.shape(0, 3);
    Index counts;
    Shape to;
    const int added = int(draw.integer(0, 2));
    for (int d = 0; d < shape.rank() + added; ++d) {
      counts.push_back(draw.integer(draw.chance(0.1) ? 0 : 1, 3));
      to = to.inserted(d, counts.back() * (d < added ? 1 : shape[d - added]));
    }
    expect_moved(
        draw, shape, to, [&](const Tensor& x) { return repeat(x, counts); },
        [&](const Index& at) {
          Index from(at.begin() + added, at.end());
          for (int d = 0; d < shape.rank(); ++d) from[size_t(d)] %= shape[d];
          return from;
        });
  });
  for_random_cases("repeat_interleave", [](Draw& draw) {
    const Shape shape = draw.shape(1, 4);
    const int dim = draw.dim(shape), along = from_front(dim, shape.rank());
    const int64_t count = draw.integer(draw.chance(0.1) ? 0 : 1, 3);
    expect_moved(
        draw, shape, shape.with(along, shape[along] * count),
        [&](const Tensor& x) { return repeat_interleave(x, count, dim); },
        [&](Index at) { return at[size_t(along)] /= count, at; });
  });
}

}  // namespace
}  // namespace adret
