// Convolution, pooling and resampling layers of sequences and volumes: names, shapes, what they
// pass on, copies and what they refuse.
#include <adret/autograd/ops/reduce.h>
#include <adret/core/random.h>
#include <adret/layers/conv.h>
#include <adret/layers/pool.h>
#include <adret/layers/resample.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

Tensor input(const Shape& shape) { return sequence(shape).to(DType::f32); }

// The layer, and its copy, give `y`.
template <class L>
void expect_result(L& layer, const Tensor& x, const Tensor& y) {
  const Tensor result = layer(x);
  EXPECT_EQ(result.shape(), y.shape());
  EXPECT_EQ(result.to_vector(), y.to_vector());
  L copy = layer.clone();
  EXPECT_EQ(copy(x).to_vector(), y.to_vector());
}

template <class L>
void expect_parameters(const L& layer, const Shape& weight, const Shape& bias) {
  EXPECT_EQ(layer.weight.value.shape(), weight);
  EXPECT_EQ(layer.bias.value.shape(), bias);
  const auto parameters = layer.parameters();
  ASSERT_EQ(parameters.size(), 2u);
  EXPECT_EQ(parameters[0]->name, "weight");
  EXPECT_EQ(parameters[1]->name, "bias");
}

// The same bits twice are promised in deterministic mode.
class WindowLayers : public testing::Test {
 protected:
  static ComputeMode deterministic() {
    ComputeMode mode = compute_mode();
    mode.deterministic = true;
    return mode;
  }
  const ComputeModeScope scope_{deterministic()};
};

TEST_F(WindowLayers, ConvolutionsPassTheirOptionsOn) {
  const Tensor volume = input({2, 4, 5, 6, 4}), line = input({2, 6, 4});
  Conv3d conv3(4, 6,
               {.kernel = {2, 3, 1},
                .stride = {1, 2, 1},
                .padding = {1, 0, 2},
                .dilation = {2, 1, 1},
                .groups = 2,
                .activation = Activation::relu});
  expect_parameters(conv3, {6, 2, 3, 1, 2}, {6});
  expect_result(conv3, volume,
                conv3d(volume, conv3.weight, conv3.bias,
                       {.stride = {1, 2, 1},
                        .padding = {1, 0, 2},
                        .dilation = {2, 1, 1},
                        .groups = 2,
                        .activation = Activation::relu}));
  Conv1d conv1(4, 3, {.kernel = 4, .padding = Pad::same, .bias = false});
  EXPECT_FALSE(conv1.bias.value.defined());
  expect_result(conv1, line, conv1d(line, conv1.weight, {}, {.padding = Pad::same}));
  EXPECT_EQ(Conv2d(4, 3, {.kernel = {2, 3}, .padding = Pad::same})(input({1, 4, 5, 4})).shape(),
            (Shape{1, 4, 5, 3}));
  EXPECT_EQ(Conv3d(4, 3, {.kernel = {2, 3, 4}, .padding = Pad::same})(volume).shape(),
            (Shape{2, 4, 5, 6, 3}));
}

TEST_F(WindowLayers, TransposedConvolutionsPassTheirOptionsOn) {
  const Tensor volume = input({2, 2, 3, 2, 4}), line = input({2, 5, 4});
  ConvTranspose3d up3(
      4, 6, {.kernel = 3, .stride = 2, .padding = 1, .output_padding = {1, 0, 1}, .groups = 2});
  expect_parameters(up3, {4, 3, 3, 3, 3}, {6});
  EXPECT_EQ(up3(volume).shape(), (Shape{2, 4, 5, 4, 6}));
  expect_result(
      up3, volume,
      conv_transpose3d(volume, up3.weight, up3.bias,
                       {.stride = 2, .padding = 1, .output_padding = {1, 0, 1}, .groups = 2}));
  ConvTranspose1d up1(4, 2, {.kernel = 2, .stride = 3, .dilation = 2, .output_padding = 2});
  expect_parameters(up1, {4, 2, 2}, {2});
  expect_result(up1, line,
                conv_transpose1d(line, up1.weight, up1.bias,
                                 {.stride = 3, .dilation = 2, .output_padding = 2}));
}

TEST_F(WindowLayers, LearnAndRunIn16Bits) {
  random::manual_seed(2);
  Conv3d conv(2, 3, {.kernel = 2});
  ConvTranspose3d up(3, 1, {.kernel = 2});
  const Tensor x = input({2, 3, 3, 3, 2});
  sum(up(conv(x))).backward();
  for (const Parameter* p : {&conv.weight, &conv.bias, &up.weight, &up.bias}) {
    EXPECT_EQ(p->value.grad().shape(), p->value.shape());
  }
  const std::vector<double> exact = up(conv(x)).to(DType::f64).to_vector<double>();
  conv.to(DType::bf16);
  up.to(DType::bf16);
  const Tensor y = up(conv(x));
  EXPECT_EQ(y.dtype(), DType::bf16);
  expect_values(y, {2, 3, 3, 3, 1}, exact, 0.05);  // values up to 2, a dozen roundings to 8 bits
}

TEST_F(WindowLayers, PoolingPassesItsOptionsOn) {
  const Tensor line = input({1, 7, 2}), image = input({1, 5, 7, 2}),
               volume = input({1, 5, 4, 7, 2});
  const auto expect = [](auto layer, const Tensor& x, const Tensor& y) {
    expect_result(layer, x, y);
  };
  const Pool1dOptions of_line{
      .stride = 3, .padding = 1, .ceil_mode = true, .count_include_pad = false};
  const Pool3dOptions of_volume{
      .stride = {1, 2, 3}, .padding = {1, 0, 1}, .ceil_mode = true, .count_include_pad = false};
  expect(MaxPool1d(2, of_line), line, max_pool1d(line, 2, of_line));
  expect(AvgPool1d(2, of_line), line, avg_pool1d(line, 2, of_line));
  expect(MaxPool3d({2, 1, 3}, of_volume), volume, max_pool3d(volume, {2, 1, 3}, of_volume));
  expect(AvgPool3d({2, 1, 3}, of_volume), volume, avg_pool3d(volume, {2, 1, 3}, of_volume));
  expect(GlobalMaxPool2d(), image, global_max_pool2d(image));
  expect(AdaptiveAvgPool1d(3), line, adaptive_avg_pool1d(line, 3));
  expect(AdaptiveMaxPool1d(3), line, adaptive_max_pool1d(line, 3));
  expect(AdaptiveAvgPool2d({2, 3}), image, adaptive_avg_pool2d(image, {2, 3}));
  expect(AdaptiveMaxPool2d({2, 3}), image, adaptive_max_pool2d(image, {2, 3}));
  expect(AdaptiveAvgPool3d({2, 3, 1}), volume, adaptive_avg_pool3d(volume, {2, 3, 1}));
  expect(AdaptiveMaxPool3d({2, 3, 1}), volume, adaptive_max_pool3d(volume, {2, 3, 1}));
}

TEST_F(WindowLayers, PixelsAreShuffled) {
  const Tensor x = input({1, 2, 3, 18});
  PixelShuffle layer(3);
  expect_result(layer, x, pixel_shuffle(x, 3));
  expect_error<Error>([] { return PixelShuffle(0); }, "[PixelShuffle] factor is 0");
  PixelUnshuffle back(3);
  expect_result(back, layer(x), x);
  expect_error<Error>([] { return PixelUnshuffle(0); }, "[PixelUnshuffle] factor is 0");
  expect_error<ShapeError>(
      [] {
        return PixelUnshuffle(2)(input({1, 4, 3, 1}));
      },
      "[pixel_unshuffle] sides 4x3 are no multiples of the factor 2");
}

TEST_F(WindowLayers, UpsamplingPassesItsOptionsOn) {
  const Tensor line = input({2, 3, 2}), image = input({2, 2, 3, 2}),
               volume = input({1, 2, 3, 2, 2});
  const InterpolateOptions corners{.mode = Interpolation::linear, .align_corners = true};
  const auto expect = [](auto layer, const Tensor& x, const Tensor& y) {
    expect_result(layer, x, y);
  };
  expect(Upsample1d(), line, interpolate1d(line, 6));
  expect(Upsample1d({.factor = 3, .mode = Interpolation::linear, .align_corners = true}), line,
         interpolate1d(line, 9, corners));
  expect(Upsample({.factor = {2, 3}, .mode = Interpolation::bilinear, .align_corners = true}),
         image, interpolate(image, {4, 9}, corners));
  expect(Upsample3d(), volume, interpolate3d(volume, {4, 6, 4}));
  expect(Upsample3d({.factor = {1, 2, 3}, .mode = Interpolation::trilinear, .align_corners = true}),
         volume, interpolate3d(volume, {2, 6, 6}, corners));
}

TEST_F(WindowLayers, RefuseArgumentsThatCannotWork) {
  const auto refuses = [](const std::string& text, auto make) { expect_error<Error>(make, text); };
  refuses("[Conv1d] kernel is 0; it must be at least 1", [] { return Conv1d(1, 1, {}); });
  refuses("[Conv3d] kernel is 0x0x0; it must be at least 1x1x1", [] { return Conv3d(1, 1, {}); });
  refuses("[Conv3d] kernel is 3x0x3", [] {
    return Conv3d(4, 4, {.kernel = {3, 0, 3}, .groups = 4});
  });
  refuses("[Conv1d] groups is 0; it must be at least 1",
          [] { return Conv1d(4, 4, {.kernel = 3, .groups = 0}); });
  refuses("[Conv3d] groups is 0; it must be at least 1",
          [] { return Conv3d(4, 4, {.kernel = 3, .groups = 0}); });
  refuses("[Conv1d] in_channels is 30, which groups 8 does not divide",
          [] { return Conv1d(30, 16, {.kernel = 3, .groups = 8}); });
  refuses("[Conv3d] out_channels is 30, which groups 8 does not divide",
          [] { return Conv3d(16, 30, {.kernel = 3, .groups = 8}); });
  refuses("[Conv3d] padding is 0x-1x0", [] {
    return Conv3d(1, 1, {.kernel = 3, .padding = {0, -1, 0}});
  });
  refuses("[Conv2d] padding same wants a stride of 1",
          [] { return Conv2d(1, 1, {.kernel = 3, .stride = 2, .padding = Pad::same}); });
  refuses("[ConvTranspose1d] output_padding is -1; it must be at least 0",
          [] { return ConvTranspose1d(1, 1, {.kernel = 3, .output_padding = -1}); });
  refuses("[ConvTranspose3d] stride is 0x0x0",
          [] { return ConvTranspose3d(1, 1, {.kernel = 3, .stride = 0}); });
  refuses("[MaxPool1d] kernel is 0; it must be at least 1", [] { return MaxPool1d(0); });
  refuses("[AvgPool1d] padding is 2; it must be at most half the kernel 3",
          [] { return AvgPool1d(3, {.padding = 2}); });
  refuses("[MaxPool3d] padding is 0x0x2; it must be at most half the kernel 3x3x3", [] {
    return MaxPool3d(3, {.padding = {0, 0, 2}});
  });
  refuses("[AvgPool3d] stride is -1x-1x-1", [] { return AvgPool3d(3, {.stride = -1}); });
  refuses("[AdaptiveAvgPool1d] size is 0; it must be at least 1",
          [] { return AdaptiveAvgPool1d(0); });
  refuses("[AdaptiveAvgPool3d] size is 1x0x1", [] { return AdaptiveAvgPool3d({1, 0, 1}); });
  refuses("[AdaptiveMaxPool1d] size is 0", [] { return AdaptiveMaxPool1d(0); });
  refuses("[AdaptiveMaxPool2d] size is 0x1", [] { return AdaptiveMaxPool2d({0, 1}); });
  refuses("[AdaptiveMaxPool3d] size is 0x0x0", [] { return AdaptiveMaxPool3d(0); });
  refuses("[Upsample1d] factor is 0; it must be at least 1",
          [] { return Upsample1d({.factor = 0}); });
  refuses("[Upsample3d] factor is 2x0x2", [] { return Upsample3d({.factor = {2, 0, 2}}); });
  refuses("[Upsample3d] align_corners is of linear interpolation alone",
          [] { return Upsample3d({.align_corners = true}); });
  expect_error<ShapeError>(
      [] {
        return Upsample1d()(Tensor::ones({2, 3}));
      },
      "[interpolate1d] x is (2, 3), wanted (N, L, C)");
}

}  // namespace
}  // namespace adret
