// Convolutions, transposed ones and pooling of images and sequences.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/pool.h>

#include <algorithm>
#include <limits>

#include "tests/support/random_case.h"
#include "tests/support/reference.h"

namespace adret {
namespace {

using namespace test;

// -- convolution --------------------------------------------------------------

Size2 pair(Draw& draw, int64_t low, int64_t high) {
  return {draw.integer(low, high), draw.integer(low, high)};
}

// A convolution whose kernel fits; height 1 throughout for sequences.
struct Conv {
  ConvSizes sizes;
  bool biased;
  Conv2dOptions options;

  Conv(Draw& draw, bool of_images) : biased(draw.chance()) {
    const int64_t groups = draw.one_of<int64_t>({1, 1, 2, 3});
    const auto one = [&](Size2 size, int64_t neutral) {
      return of_images ? size : Size2{neutral, size.w};
    };
    options = {.stride = one(pair(draw, 1, 3), 1),
               .padding = one(pair(draw, 0, 2), 0),
               .dilation = one(pair(draw, 1, 2), 1),
               .groups = groups,
               .activation = draw.chance(0.3) ? Activation::relu : Activation::none};
    const Size2 kernel = one(pair(draw, 1, 3), 1);
    const auto least = [](int64_t kernel, int64_t dilation, int64_t padding) {
      return std::max<int64_t>(1, dilation * (kernel - 1) + 1 - 2 * padding);
    };
    const int64_t h =
        least(kernel.h, options.dilation.h, options.padding.size.h) + draw.integer(0, 4);
    const int64_t w =
        least(kernel.w, options.dilation.w, options.padding.size.w) + draw.integer(0, 4);
    sizes = {draw.integer(0, 2),
             of_images ? h : 1,
             w,
             groups * draw.integer(1, 2),
             groups * draw.integer(1, 2),
             kernel.h,
             kernel.w,
             {.stride = options.stride,
              .padding = options.padding.size,
              .dilation = options.dilation,
              .groups = groups}};
  }
  // Without the height that is 1.
  static Shape row(const Shape& shape) { return shape.without(1); }
};

// call(x, weight, bias) with the shapes given, of what the loops in tests/support/reference.h sum.
template <class Call>
void expect_convolved(Draw& draw, const Conv& conv, bool of_images, Call call) {
  const ConvSizes& s = conv.sizes;
  const auto shaped = [&](const Shape& shape) { return of_images ? shape : Conv::row(shape); };
  const Tensor x = draw.numbers(shaped(s.x())), weight = draw.numbers(shaped(s.weight()));
  Inputs inputs = {x, weight};
  if (conv.biased) inputs.push_back(draw.numbers({s.o}));
  Array y(shaped(s.y()));
  y.values = conv_forward(s, x.to_vector<double>(), weight.to_vector<double>(),
                          conv.biased ? inputs[2].to_vector<double>() : Values())
                 .value;
  if (conv.options.activation == Activation::relu) {
    for (double& v : y.values) v = std::max(v, 0.0);
  }
  const auto with = [&](const Inputs& in) {
    return call(in[0], in[1], conv.biased ? in[2] : Tensor());
  };
  const DType dtype = draw.wide();
  Inputs converted;
  for (const Tensor& input : inputs) converted.push_back(input.to(dtype));
  expect_array(with(converted), y);
  expect_slope(with, inputs, draw);
}

TEST(ConvProperties, OfImagesAndOfSequences) {
  for_random_cases("conv2d", [](Draw& draw) {
    const Conv conv(draw, true);
    expect_convolved(draw, conv, true,
                     [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
                       return conv2d(x, weight, bias, conv.options);
                     });
  });
  for_random_cases("conv1d", [](Draw& draw) {
    const Conv conv(draw, false);
    const Conv1dOptions options{.stride = conv.options.stride.w,
                                .padding = conv.options.padding.size.w,
                                .dilation = conv.options.dilation.w,
                                .groups = conv.options.groups,
                                .activation = conv.options.activation};
    expect_convolved(draw, conv, false,
                     [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
                       return conv1d(x, weight, bias, options);
                     });
  });
}

// The loops' gradient of a convolution's input; its output has the remainder of the division by the
// stride as output_padding.
template <class Call>
void expect_transposed(Draw& draw, const Conv& conv, bool of_images, Call call) {
  const ConvSizes& s = conv.sizes;
  const auto shaped = [&](const Shape& shape) { return of_images ? shape : Conv::row(shape); };
  const Tensor dy = draw.numbers(shaped(s.y())), weight = draw.numbers(shaped(s.weight()));
  Inputs inputs = {dy, weight};
  if (conv.biased) inputs.push_back(draw.numbers({s.c}));
  Array dx(shaped(s.x()));
  dx.values = conv_backward_input(s, dy.to_vector<double>(), weight.to_vector<double>()).value;
  for (size_t i = 0; i < dx.values.size() && conv.biased; ++i) {
    dx.values[i] += inputs[2].to_vector<double>()[i % size_t(s.c)];
  }
  const auto rest = [](int64_t size, int64_t kernel, int64_t padding, int64_t dilation,
                       int64_t stride) {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) % stride;
  };
  const auto& p = s.conv;
  const Size2 more = {rest(s.h, s.kh, p.padding.h, p.dilation.h, p.stride.h),
                      rest(s.w, s.kw, p.padding.w, p.dilation.w, p.stride.w)};
  const auto with = [&](const Inputs& in) {
    return call(in[0], in[1], conv.biased ? in[2] : Tensor(), more);
  };
  const DType dtype = draw.wide();
  Inputs converted;
  for (const Tensor& input : inputs) converted.push_back(input.to(dtype));
  expect_array(with(converted), dx);
  expect_slope(with, inputs, draw);
}

TEST(ConvProperties, Transposed) {
  for_random_cases("conv_transpose2d", [](Draw& draw) {
    const Conv conv(draw, true);
    const auto& p = conv.options;
    expect_transposed(draw, conv, true,
                      [&](const Tensor& x, const Tensor& weight, const Tensor& bias, Size2 more) {
                        return conv_transpose2d(
                            x, weight, bias,
                            {p.stride, p.padding.size, p.dilation, more, p.groups});
                      });
  });
  for_random_cases("conv_transpose1d", [](Draw& draw) {
    const Conv conv(draw, false);
    const auto& p = conv.options;
    expect_transposed(draw, conv, false,
                      [&](const Tensor& x, const Tensor& weight, const Tensor& bias, Size2 more) {
                        return conv_transpose1d(
                            x, weight, bias,
                            {p.stride.w, p.padding.size.w, p.dilation.w, more.w, p.groups});
                      });
  });
}

// -- pooling ------------------------------------------------------------------

// A pooling whose windows fit.
struct Pool {
  PoolSizes sizes;
  Pool2dOptions options;

  explicit Pool(Draw& draw) {
    const Size2 kernel = pair(draw, 1, 3);
    options = {.stride = pair(draw, 1, 3),
               .padding = {draw.integer(0, kernel.h / 2), draw.integer(0, kernel.w / 2)},
               .ceil_mode = draw.chance(),
               .count_include_pad = draw.chance()};
    const int64_t h = kernel.h + draw.integer(0, 4), w = kernel.w + draw.integer(0, 4);
    sizes = {draw.integer(0, 2),
             h,
             w,
             draw.integer(1, 3),
             outputs(h, kernel.h, options.stride.h, options.padding.h),
             outputs(w, kernel.w, options.stride.w, options.padding.w),
             {.kernel = kernel,
              .stride = options.stride,
              .padding = options.padding,
              .count_include_pad = options.count_include_pad}};
  }
  // Counted: every window that begins before the trailing padding and, unless sizes are rounded up,
  // ends in it at most.
  int64_t outputs(int64_t size, int64_t kernel, int64_t stride, int64_t padding) const {
    int64_t count = 0;
    for (int64_t begin = -padding;; begin += stride, ++count) {
      const bool fits = begin + kernel <= size + padding;
      // Rounded up: one window more where the last one left something over.
      const bool leaves = begin - stride + kernel < size + padding;
      if (!fits && !(options.ceil_mode && leaves && begin < size)) return count;
    }
  }
};

TEST(PoolProperties, MaxAndAverage) {
  for_random_cases("max_pool2d", [](Draw& draw) {
    const Pool pool(draw);
    const Tensor x = draw.distinct(pool.sizes.x());
    Array y(pool.sizes.y());
    y.values = max_pool(pool.sizes, x.to_vector<double>()).value;
    expect_array(max_pool2d(x.to(draw.wide()), pool.sizes.pool.kernel, pool.options), y);
    expect_slope(
        [&](const Inputs& in) { return max_pool2d(in[0], pool.sizes.pool.kernel, pool.options); },
        {x}, draw);
  });
  for_random_cases("avg_pool2d", [](Draw& draw) {
    const Pool pool(draw);
    const Tensor x = draw.numbers(pool.sizes.x());
    const std::vector<double> in = x.to_vector<double>(), divisors = pool_divisors(pool.sizes);
    Array y(pool.sizes.y());
    for_each_tap(pool.sizes, [&](int64_t iy, int64_t ix, int64_t) {
      y.values[size_t(iy)] += in[size_t(ix)] / divisors[size_t(iy)];
    });
    expect_array(avg_pool2d(x.to(draw.wide()), pool.sizes.pool.kernel, pool.options), y);
    expect_slope(
        [&](const Inputs& in) { return avg_pool2d(in[0], pool.sizes.pool.kernel, pool.options); },
        {x}, draw);
  });
}

TEST(PoolProperties, GlobalAverage) {
  for_random_cases("global_avg_pool2d", [](Draw& draw) {
    const Shape shape{draw.integer(0, 3), draw.integer(1, 5), draw.integer(1, 5), draw.size()};
    const Tensor x = draw.numbers(shape);
    const Array in(x);
    Array y(Shape{shape[0], shape[3]});
    for (const Index& at : indices_of(shape)) {
      y.at({at[0], at[3]}) += in.at(at) / double(shape[1] * shape[2]);
    }
    expect_array(global_avg_pool2d(x.to(draw.wide())), y);
    expect_slope([](const Inputs& in) { return global_avg_pool2d(in[0]); }, {x}, draw);
  });
}

TEST(PoolProperties, GlobalMax) {
  for_random_cases("global_max_pool2d", [](Draw& draw) {
    const Shape shape{draw.integer(0, 3), draw.integer(1, 5), draw.integer(1, 5), draw.size()};
    const Tensor x = draw.numbers(shape);
    const Array in(x);
    Array y(Shape{shape[0], shape[3]});
    for (const Index& at : indices_of(shape)) {
      double& largest = y.at({at[0], at[3]});
      if ((at[1] == 0 && at[2] == 0) || in.at(at) > largest) largest = in.at(at);
    }
    expect_array(global_max_pool2d(x.to(draw.wide())), y);
    expect_slope([](const Inputs& in) { return global_max_pool2d(in[0]); }, {x}, draw);
  });
}

}  // namespace
}  // namespace adret
