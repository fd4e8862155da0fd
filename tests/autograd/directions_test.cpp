// What holds for convolutions and pooling of sequences, images and volumes alike: public bug
// reports of similar frameworks, and refusals.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"
#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Values = std::vector<double>;

constexpr TensorOptions f64{.dtype = DType::f64};

// -- one call for 1, 2 and 3 directions, with the same numbers in each ----------------------------

Shape sized(int directions, int64_t first, int64_t size, int64_t last) {
  Shape shape{first, last};
  for (int i = 0; i < directions; ++i) shape = shape.inserted(1, size);
  return shape;
}

// "1x3" of sequences, "3x3" of images: as errors have it.
std::string text(int directions, int64_t size) {
  switch (directions) {
    case 1: return to_string(Size2(1, size));
    case 2: return to_string(Size2(size));
    default: return to_string(Size3(size));
  }
}

// A weight's shape, of sequences as that of images of one row.
std::string weight_text(int directions, const Shape& weight) {
  return to_string(directions == 1 ? weight.inserted(1, 1) : weight);
}

struct ConvNumbers {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

Tensor conv(int directions, const Inputs& in, const ConvNumbers& n = {}) {
  const Tensor bias = in.size() > 2 ? in[2] : Tensor();
  switch (directions) {
    case 1: return conv1d(in[0], in[1], bias, {n.stride, n.padding, n.dilation, n.groups});
    case 2: return conv2d(in[0], in[1], bias, {n.stride, n.padding, n.dilation, n.groups});
    default: return conv3d(in[0], in[1], bias, {n.stride, n.padding, n.dilation, n.groups});
  }
}

Tensor conv_transpose(int directions, const Inputs& in) {
  const Tensor bias = in.size() > 2 ? in[2] : Tensor();
  switch (directions) {
    case 1: return conv_transpose1d(in[0], in[1], bias);
    case 2: return conv_transpose2d(in[0], in[1], bias);
    default: return conv_transpose3d(in[0], in[1], bias);
  }
}

using Pool1d = PoolOptions<int64_t>;
Tensor max_pool(int directions, const Tensor& x, int64_t kernel, const Pool1d& o = {}) {
  switch (directions) {
    case 1: return max_pool1d(x, kernel, o);
    case 2: return max_pool2d(x, kernel, {o.stride, o.padding, o.ceil_mode});
    default: return max_pool3d(x, kernel, {o.stride, o.padding, o.ceil_mode});
  }
}
Tensor avg_pool(int directions, const Tensor& x, int64_t kernel, const Pool1d& o = {}) {
  switch (directions) {
    case 1: return avg_pool1d(x, kernel, o);
    case 2: return avg_pool2d(x, kernel, {o.stride, o.padding, o.ceil_mode, o.count_include_pad});
    default: return avg_pool3d(x, kernel, {o.stride, o.padding, o.ceil_mode, o.count_include_pad});
  }
}

class Directions : public testing::TestWithParam<int> {
 protected:
  const int directions = GetParam();
  Shape sized(int64_t first, int64_t size, int64_t last) const {
    return adret::sized(directions, first, size, last);
  }
  std::string name(const char* function) const {
    return fmt::format("[{}{}d]", function, directions);
  }
};
INSTANTIATE_TEST_SUITE_P(, Directions, testing::Values(1, 2, 3),
                         [](const auto& info) { return fmt::format("{}d", info.param); });

// -- convolution ---------------------------------------------------------------------------------

TEST_P(Directions, AKernelThatDoesNotFitIsRefused) {
  const Tensor x = Tensor::ones(sized(1, 2, 1)), weight = Tensor::ones(sized(1, 3, 1));
  const std::string three = text(directions, 3), one = text(directions, 1);
  expect_error<ShapeError>(
      [&] {
        return conv(directions, {x, weight});
      },
      fmt::format("{} kernel {} with dilation {} covers {}, more than input {} with padding",
                  name("conv"), three, one, three, text(directions, 2)));
  EXPECT_EQ(conv(directions, {x, weight}, {.padding = 1}).shape(), sized(1, 2, 1));
  expect_error<ShapeError>(
      [&] { return max_pool(directions, x, 3); },
      fmt::format("{} kernel {} is larger than input", name("max_pool"), three));
}

TEST_P(Directions, KernelsOfSizeZeroAreRefused) {
  const Tensor x = Tensor::ones(sized(1, 4, 4));
  for (const int64_t groups : {1, 4}) {
    const Tensor weight = Tensor::ones(sized(4, 0, 4 / groups));
    expect_error<ShapeError>(
        [&] {
          return conv(directions, {x, weight}, {.groups = groups});
        },
        "of weight " + weight_text(directions, weight.shape()) + "; wanted at least " +
            text(directions, 1));
  }
  for (const auto pool : {max_pool, avg_pool}) {
    expect_error<ShapeError>([&] { return pool(directions, x, 0, {}); }, "; wanted at least");
    expect_error<ShapeError>([&] { return pool(directions, x, 2, {.stride = -1}); },
                             "; wanted at least");
    expect_error<ShapeError>([&] { return pool(directions, x, 2, {.padding = 2}); },
                             "; wanted 0 to half the kernel");
    expect_error<ShapeError>([&] { return pool(directions, Tensor::ones(sized(1, 0, 2)), 2, {}); },
                             " has no places to pool");
    expect_error<ShapeError>(
        [&] {
          return pool(directions, Tensor::ones({2, 2}), 2, {});
        },
        "x is (2, 2), wanted (N,");
  }
}

TEST_P(Directions, GroupsMustDivideTheChannels) {
  const Tensor x = Tensor::ones(sized(1, 3, 30));
  const auto refuses = [&](const Shape& weight, int64_t groups, const std::string& why) {
    expect_error<ShapeError>(
        [&] {
          return conv(directions, {x, Tensor::ones(weight)}, {.groups = groups});
        },
        name("conv") + " " + why);
  };
  refuses(sized(16, 3, 30), 0, "groups 0, wanted at least 1");
  refuses(sized(16, 3, 3), 8, "30 input channels are not divisible by groups 8");
  refuses(sized(16, 3, 6), 5, "16 output channels are not divisible by groups 5");
  const Shape wrong = sized(15, 3, 5);
  refuses(wrong, 5,
          "input has 30 channels, weight " + weight_text(directions, wrong) +
              " with groups 5 wants 25");
}

TEST_P(Directions, GroupsAreConvolutionsOfTheirChannels) {
  const Tensor x = variable(sized(2, 3, 6)), weight = variable(sized(6, 2, 2), 5);
  const Tensor whole = conv(directions, {x, weight}, {.groups = 3});
  std::vector<Tensor> parts;
  for (int64_t g = 0; g < 3; ++g) {
    parts.push_back(
        conv(directions, {slice(x, -1, 2 * g, 2 * g + 2), slice(weight, 0, 2 * g, 2 * g + 2)}));
  }
  const Tensor wanted = concatenate(parts, -1);
  expect_values(whole, wanted.shape(), wanted.to_vector<double>());
  const std::vector<Tensor> d = gradients(whole, {x, weight}),
                            of_parts = gradients(wanted, {x, weight});
  for (size_t i : {0, 1}) expect_values(d[i], d[i].shape(), of_parts[i].to_vector<double>());
}

// Slices of leading elements share memory, with an offset; those of channels are copies.
TEST_P(Directions, WeightsThatArePartsOfLargerTensors) {
  const Tensor x = variable(sized(2, 3, 2));
  for (const int dim : {0, -1}) {
    const Tensor larger = variable(dim == 0 ? sized(4, 2, 2) : sized(2, 2, 5), 5);
    const Tensor part = slice(larger, dim, 1, 3);
    Tensor copy = part.detach().clone();
    copy.set_requires_grad(true);
    const Tensor y = conv(directions, {x, part}), wanted = conv(directions, {x, copy});
    expect_values(y, wanted.shape(), wanted.to_vector<double>());
    const std::vector<Tensor> d = gradients(y, {x, larger}), of_copy = gradients(wanted, {x, copy});
    expect_values(d[0], x.shape(), of_copy[0].to_vector<double>());
    expect_values(slice(d[1], dim, 1, 3), copy.shape(), of_copy[1].to_vector<double>());
    expect_values(sum(slice(d[1], dim, 0, 1)), {}, {0});
  }
}

TEST_P(Directions, InputsThatWereTransposedOrStretched) {
  const Tensor weight = variable(sized(2, 2, 3), 5);
  const Tensor turned = variable(sized(3, 3, 1)), stretched = variable(sized(1, 3, 1));
  for (const auto& [from, x] : {std::pair(turned, transpose(turned, 0, -1)),
                                std::pair(stretched, broadcast_to(stretched, sized(2, 3, 3)))}) {
    Tensor copy = x.detach().clone();
    copy.set_requires_grad(true);
    const Tensor y = conv(directions, {x, weight}), wanted = conv(directions, {copy, weight});
    expect_values(y, wanted.shape(), wanted.to_vector<double>());
    const Tensor of_copy = gradients(wanted, {copy})[0];
    const Tensor back = grad({x}, {from}, {.grad_outputs = {of_copy}, .retain_graph = true})[0];
    expect_values(gradients(y, {from})[0], from.shape(), back.to_vector<double>());
  }
}

TEST_P(Directions, AnEmptyBatchGivesNoRowsAndZeroGradients) {
  const Tensor x = variable(sized(0, 4, 2)), bias = variable({3});
  for (const bool transposed : {false, true}) {
    const Tensor weight = variable(transposed ? sized(2, 3, 3) : sized(3, 3, 2));
    const Tensor y = transposed ? conv_transpose(directions, {x, weight, bias})
                                : conv(directions, {x, weight, bias});
    EXPECT_EQ(y.shape(), sized(0, transposed ? 6 : 2, 3));
    const std::vector<Tensor> d = gradients(y, {x, weight, bias});
    EXPECT_EQ(d[0].shape(), x.shape());
    expect_values(d[1], weight.shape(), Values(size_t(weight.numel()), 0));
    expect_values(d[2], {3}, {0, 0, 0});
  }
  for (const Tensor& y : {max_pool(directions, x, 2), avg_pool(directions, x, 2)}) {
    EXPECT_EQ(y.shape(), sized(0, 2, 2));
    EXPECT_EQ(gradients(y, {x})[0].shape(), x.shape());
  }
}

struct Same {
  Tensor operator()(int directions, const Tensor& x, const Tensor& weight,
                    int64_t stride = 1) const {
    const Pad same = Pad::same;
    switch (directions) {
      case 1: return conv1d(x, weight, {}, {.stride = stride, .padding = same});
      case 2: return conv2d(x, weight, {}, {.stride = stride, .padding = same});
      default: return conv3d(x, weight, {}, {.stride = stride, .padding = same});
    }
  }
};

TEST_P(Directions, PaddingSameKeepsTheSize) {
  const Same convolved;
  const Tensor x = variable(sized(1, 4, 2));
  for (const int64_t kernel : {1, 2, 3, 6}) {
    EXPECT_EQ(convolved(directions, x, variable(sized(3, kernel, 2))).shape(), sized(1, 4, 3));
  }
  expect_error<ShapeError>([&] { return convolved(directions, x, variable(sized(3, 3, 2)), 2); },
                           name("conv") + " padding same with stride ");
}

TEST(WindowSizes, BeyondWhatCanBeCountedAreRefused) {
  const Tensor x = Tensor::ones({1, 5, 1}), weight = Tensor::ones({1, 3, 1});
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  expect_error<ShapeError>([&] { return conv1d(x, weight, {}, {.padding = huge}); },
                           "[conv1d] padding 0x9223372036854775807, wanted at most 2147483647");
  expect_error<ShapeError>([&] { return conv1d(x, weight, {}, {.dilation = huge}); },
                           "[conv1d] dilation 1x9223372036854775807");
  expect_error<ShapeError>(
      [&] { return conv1d(x, weight, {}, {.padding = Pad::same, .dilation = huge / 2}); },
      "[conv1d] dilation 1x4611686018427387903");
  expect_error<ShapeError>([&] { return conv_transpose1d(x, weight, {}, {.padding = huge}); },
                           "[conv_transpose1d] padding 0x9223372036854775807");
  expect_error<ShapeError>([&] { return max_pool1d(x, 3, {.stride = huge, .ceil_mode = true}); },
                           "[max_pool1d] stride 1x9223372036854775807");
  expect_error<ShapeError>([&] { return adaptive_max_pool1d(x, huge); },
                           "[adaptive_max_pool1d] size");
}

TEST(PaddingSame, PadsNothingWhereBothEndsAreAlike) {
  const Tensor x = variable({1, 4, 4, 2}), odd = variable({1, 3, 5, 2}),
               even = variable({1, 2, 2, 2});
  SeenKernels kernels;
  (void)conv2d(x, odd, {}, {.padding = Pad::same});
  EXPECT_EQ(kernels.names(), (std::vector<std::string>{"conv2d_forward"}));
  (void)conv2d(x, even, {}, {.padding = Pad::same});
  EXPECT_EQ(kernels.calls.size(), 3u);
  expect_error<ShapeError>(
      [&] {
        return conv2d(x, odd, {}, {.stride = {1, 2}, .padding = Pad::same});
      },
      "[conv2d] padding same with stride 1x2; wanted stride 1x1");
}

// -- pooling -------------------------------------------------------------------------------------

TEST(MaxPool, WindowsOfOneElementInCeilMode) {
  expect_values(max_pool1d(Tensor::ones({1, 7, 1}), 1, {.stride = 2, .ceil_mode = true}), {1, 4, 1},
                Values(4, 1));
  expect_values(max_pool2d(Tensor::ones({1, 6, 7, 1}), 1, {.stride = 2, .ceil_mode = true}),
                {1, 3, 4, 1}, Values(12, 1));
  expect_values(max_pool3d(Tensor::ones({1, 5, 6, 7, 1}), 1, {.stride = 2, .ceil_mode = true}),
                {1, 3, 3, 4, 1}, Values(36, 1));
}

TEST_P(Directions, AWindowThatStartsInTheTrailingPaddingIsDropped) {
  const Tensor x = variable(sized(1, 5, 1));
  const Pool1d options{.stride = 2, .padding = 1, .ceil_mode = true};
  const Tensor y = max_pool(directions, x, 2, options);
  EXPECT_EQ(y.shape(), sized(1, 3, 1));
  EXPECT_EQ(avg_pool(directions, x, 2, options).shape(), sized(1, 3, 1));
  // Every window's gradient lands inside.
  expect_values(sum(grad({sum(y)}, {x})[0]), {}, {double(y.numel())});
}

TEST_P(Directions, PaddingNeverWins) {
  const Shape shape = sized(1, 4, 2);
  expect_values(max_pool(directions, Tensor::full(shape, -1), 3, {.stride = 1, .padding = 1}),
                shape, Values(size_t(shape.numel()), -1));
}

TEST_P(Directions, TheFirstOfEqualElementsGetsTheGradient) {
  const Shape shape = sized(1, 2, 1);
  const Tensor x = leaf(Values(size_t(shape.numel()), 1), shape);
  Values first(size_t(shape.numel()), 0);
  first[0] = 1;
  expect_values(grad({sum(max_pool(directions, x, 2))}, {x})[0], shape, first);
}

TEST_P(Directions, NanWins) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Shape shape = sized(1, 2, 1);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    Values values(size_t(shape.numel()), 1);
    values[size_t(i)] = nan;
    expect_values(max_pool(directions, Tensor::from(values, shape), 2), sized(1, 1, 1), {nan});
  }
}

TEST_P(Directions, PoolingHasDerivativesOfSecondOrder) {
  for (const auto pool : {max_pool, avg_pool}) {
    for (const Pool1d& options :
         {Pool1d{.stride = 1, .padding = 1},
          Pool1d{.stride = 2, .ceil_mode = true, .count_include_pad = false}}) {
      expect_gradients(
          [&](const Inputs& in) { return square(pool(directions, in[0], 2, options)); },
          {variable(sized(1, 3, 1))});
    }
  }
}

TEST(GlobalMaxPool2d, TakesTheFirstOfTheLargest) {
  const Tensor x = leaf({1, 10, 5, 20, 5, 30, 2, 30}, {1, 2, 2, 2});
  const Tensor y = global_max_pool2d(x);
  expect_values(y, {1, 2}, {5, 30});
  expect_values(grad({sum(y)}, {x})[0], {1, 2, 2, 2}, {0, 0, 1, 0, 0, 1, 0, 0});
  EXPECT_EQ(global_max_pool2d(Tensor::ones({0, 4, 4, 3})).shape(), Shape({0, 3}));
  expect_error<ShapeError>(
      [] {
        return global_max_pool2d(Tensor::ones({1, 0, 2, 2}));
      },
      "[global_max_pool2d] x (1, 0, 2, 2) has no places to pool");
}

TEST(AdaptivePool, RefusesEmptySizes) {
  const Tensor line = Tensor::ones({1, 4, 2}), image = Tensor::ones({1, 4, 0, 2}),
               volume = Tensor::ones({1, 4, 3, 2, 2});
  for (const auto pool : {adaptive_avg_pool1d, adaptive_max_pool1d}) {
    expect_error<ShapeError>([&] { return pool(line, 0); },
                             "_pool1d] images of 1x4 cannot become 1x0; wanted at least 1x1");
    expect_error<ShapeError>([&] { return pool(image, 1); },
                             "_pool1d] x is (1, 4, 0, 2), wanted (N, L, C)");
  }
  for (const auto pool : {adaptive_avg_pool2d, adaptive_max_pool2d}) {
    expect_error<ShapeError>([&] { return pool(image, 1); },
                             "_pool2d] images of 4x0 cannot become 1x1");
    expect_error<ShapeError>([&] { return pool(line, 1); },
                             "_pool2d] x is (1, 4, 2), wanted (N, H, W, C)");
  }
  for (const auto pool : {adaptive_avg_pool3d, adaptive_max_pool3d}) {
    expect_error<ShapeError>(
        [&] { return pool(volume, Size3(1, -1, 1)); },
        "_pool3d] images of 4x3x2 cannot become 1x-1x1; wanted at least 1x1x1");
    expect_error<ShapeError>([&] { return pool(image, 1); },
                             "_pool3d] x is (1, 4, 0, 2), wanted (N, D, H, W, C)");
    expect_error<ShapeError>([&] { return pool(volume.to(DType::i32), 1); },
                             "wanted a floating dtype");
  }
}

// -- volumes' own refusals -----------------------------------------------------------------------

TEST(Conv3d, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::ones({1, 4, 4, 4, 3}), weight = Tensor::ones({2, 3, 3, 3, 3});
  expect_error<ShapeError>(
      [&] {
        return conv3d(Tensor::ones({4, 4, 4, 3}), weight);
      },
      "[conv3d] x is (4, 4, 4, 3), wanted (N, D, H, W, C)");
  expect_error<ShapeError>(
      [&] {
        return conv3d(x, Tensor::ones({2, 3, 3, 3}));
      },
      "[conv3d] weight is (2, 3, 3, 3), wanted (O, KD, KH, KW, C / groups)");
  expect_error<ShapeError>([&] { return conv3d(x, weight.to(DType::f64)); },
                           "[conv3d] x (1, 4, 4, 4, 3) is f32, weight (2, 3, 3, 3, 3) is f64");
  expect_error<ShapeError>([&] { return conv3d(x.to(DType::i32), weight.to(DType::i32)); },
                           "[conv3d] x (1, 4, 4, 4, 3) is i32, wanted a floating dtype");
  expect_error<ShapeError>([&] { return conv3d(x, weight, Tensor::ones({3})); },
                           "[conv3d] bias is (3,), wanted (2,)");
  expect_error<ShapeError>(
      [&] {
        return conv3d(x, weight, {}, {.stride = {1, 0, 1}});
      },
      "[conv3d] stride 1x0x1, dilation 1x1x1, padding 0x0x0; wanted at least");
  expect_error<ShapeError>([&] { return conv3d(x, weight, {}, {.activation = Activation::gelu}); },
                           "[conv3d] activation gelu, wanted none or relu; use gelu(conv3d(...))");
}

TEST(Conv3d, FusesRelu) {
  const Tensor x = variable({1, 3, 3, 3, 2}), weight = variable({2, 2, 2, 2, 2}, 5);
  const Tensor y = conv3d(x, weight, {}, {.activation = Activation::relu});
  const Tensor wanted = maximum(conv3d(x, weight), Tensor::zeros({}, f64));
  expect_values(y, wanted.shape(), wanted.to_vector<double>());
  EXPECT_GT(std::ranges::count(y.to_vector<double>(), 0.0), 0);
}

TEST(ConvTranspose3d, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::ones({1, 2, 2, 2, 3}), weight = Tensor::ones({3, 2, 2, 2, 2});
  expect_error<ShapeError>(
      [&] {
        return conv_transpose3d(Tensor::ones({2, 2, 2, 3}), weight);
      },
      "[conv_transpose3d] x is (2, 2, 2, 3), wanted (N, D, H, W, I)");
  expect_error<ShapeError>(
      [&] {
        return conv_transpose3d(x, Tensor::ones({2, 2, 2, 2, 2}));
      },
      "[conv_transpose3d] input has 3 channels, weight (2, 2, 2, 2, 2) with groups 1 wants 2");
  expect_error<ShapeError>(
      [&] {
        return conv_transpose3d(x, weight, {}, {.stride = {1, 2, 2}, .output_padding = 1});
      },
      "[conv_transpose3d] output_padding 1x1x1, wanted from 0 to below the stride 1x2x2");
  expect_error<ShapeError>([&] { return conv_transpose3d(x, weight, {}, {.padding = 2}); },
                           "[conv_transpose3d] input 2x2x2 with padding 2x2x2 leaves no output");
  expect_error<ShapeError>([&] { return conv_transpose3d(x, weight, Tensor::ones({3})); },
                           "[conv_transpose3d] bias is (3,), wanted (2,)");
}

// -- and linear with a batch of none ----------------------------------------------------

TEST(Linear, OfAnEmptyBatchGivesZeroGradients) {
  const Tensor x = variable({0, 3}), weight = variable({2, 3}), bias = variable({2});
  const std::vector<Tensor> d = gradients(linear(x, weight, bias), {x, weight, bias});
  EXPECT_EQ(d[0].shape(), Shape({0, 3}));
  expect_values(d[1], {2, 3}, Values(6, 0));
  expect_values(d[2], {2}, {0, 0});
}

}  // namespace
}  // namespace adret
