// Convolution kernels against loops in f64, golden values of PyTorch, and themselves on other
// numbers of threads.
#include "tests/support/close.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

#include <adret/core/kernels/kernel.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adret {
namespace {

using namespace test;
using kernels::Activation;

struct ConvCase : ConvSizes {
  std::string name;
  ConvCase(std::string case_name, ConvSizes sizes) : ConvSizes(sizes), name(std::move(case_name)) {}
};
void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

// n, h, w, c, o, kh, kw, {stride, padding, dilation, groups}
const ConvCase conv_cases[] = {
    {"lenet_1", {3, 28, 28, 1, 6, 5, 5, {.padding = 2}}},
    {"lenet_2", {3, 14, 14, 6, 16, 5, 5, {}}},
    {"cnn_2", {2, 26, 26, 32, 64, 3, 3, {}}},
    {"resnet_64", {2, 12, 35, 64, 64, 3, 3, {.padding = 1}}},
    {"resnet_stem", {2, 16, 16, 3, 64, 3, 3, {.padding = 1}}},
    {"resnet_stride_2", {2, 16, 16, 24, 40, 3, 3, {.stride = 2, .padding = 1}}},
    {"resnet_shortcut", {2, 9, 8, 20, 33, 1, 1, {.stride = 2}}},
    {"long_sums_in_blocks", {1, 4, 4, 512, 35, 3, 3, {.padding = 1}}},
    {"pointwise", {2, 5, 7, 19, 21, 1, 1, {}}},
    {"pointwise_padded", {2, 3, 4, 5, 6, 1, 1, {.padding = 1}}},
    {"one_of_everything", {1, 1, 1, 1, 1, 1, 1, {}}},
    {"kernel_as_large_as_the_image", {2, 4, 3, 3, 5, 4, 3, {}}},
    {"kernel_larger_than_the_image", {2, 2, 3, 2, 3, 5, 5, {.padding = 2}}},
    {"padding_beyond_the_kernel", {1, 3, 3, 2, 2, 2, 2, {.padding = 4}}},
    {"sizes_differ_by_direction",
     {2, 9, 13, 3, 7, 2, 5, {.stride = {2, 3}, .padding = {1, 2}, .dilation = {3, 1}}}},
    {"stride_beyond_the_kernel", {2, 11, 11, 3, 4, 2, 2, {.stride = 4}}},
    {"dilated", {2, 12, 11, 4, 9, 3, 3, {.padding = 2, .dilation = 2}}},
    {"two_groups", {2, 7, 8, 6, 10, 3, 3, {.padding = 1, .groups = 2}}},
    {"wide_groups", {1, 6, 5, 66, 68, 3, 3, {.stride = 2, .groups = 2}}},
    {"groups_of_one_channel_with_two_outputs", {2, 6, 6, 5, 10, 3, 3, {.groups = 5}}},
    {"depthwise", {2, 9, 10, 37, 37, 3, 3, {.padding = 1, .groups = 37}}},
    {"depthwise_strided_dilated",
     {3, 12, 12, 8, 8, 3, 2, {.stride = 2, .dilation = {2, 3}, .groups = 8}}},
    {"many_images", {37, 6, 6, 3, 5, 3, 3, {.padding = 1}}},
    {"small_images_in_passes", {9, 4, 4, 512, 35, 3, 3, {.padding = 1}}},
    {"small_images_padded_by_more_than_the_kernel", {11, 3, 3, 2, 2, 2, 2, {.padding = 3}}},
    {"small_images_strided",
     {19, 7, 5, 20, 40, 5, 3, {.stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 1}}}},
    {"no_images", {0, 8, 8, 3, 4, 3, 3, {}}},
    {"no_images_depthwise", {0, 8, 8, 4, 4, 3, 3, {.groups = 4}}},
};

template <class T>
struct Operands {
  const ConvCase& c;
  Values x = random_values(c.x().numel(), 1);
  Values weight = random_values(c.weight().numel(), 2);
  Values bias = random_values(c.o, 3);
  Values dy = random_values(c.y().numel(), 4);

  Guarded<T> forward(bool with_bias, Activation activation) const {
    Guarded<T> y(c.y());
    const Guarded<T> bias_operand({c.o}, bias);
    run(kernels::Conv2dForward{.x = Guarded<T>(c.x(), x),
                               .weight = Guarded<T>(c.weight(), weight),
                               .bias = with_bias ? bias_operand : TensorView(),
                               .y = y,
                               .conv = c.conv,
                               .activation = activation});
    return y;
  }
  Guarded<T> backward_input() const {
    Guarded<T> dx(c.x());
    run(kernels::Conv2dBackwardInput{.dy = Guarded<T>(c.y(), dy),
                                     .weight = Guarded<T>(c.weight(), weight),
                                     .dx = dx,
                                     .conv = c.conv});
    return dx;
  }
  void backward_weight(TensorView dweight, TensorView dbias) const {
    run(kernels::Conv2dBackwardWeight{.x = Guarded<T>(c.x(), x),
                                      .dy = Guarded<T>(c.y(), dy),
                                      .dweight = dweight,
                                      .dbias = dbias,
                                      .conv = c.conv});
  }
};

template <class T>
void check(const Guarded<T>& actual, const Sums& expected, const std::string& what) {
  expect_sums<T>(actual.values(), expected, what);
  EXPECT_TRUE(actual.guards_intact()) << what << " wrote beyond its output";
}

template <class T>
void check_forward(const ConvCase& c) {
  const Operands<T> operands{c};
  check(operands.forward(false, Activation::none), conv_forward(c, operands.x, operands.weight, {}),
        "forward");
  Sums expected = conv_forward(c, operands.x, operands.weight, operands.bias);
  check(operands.forward(true, Activation::none), expected, "forward with bias");
  for (double& y : expected.value) y = std::max(y, 0.0);
  check(operands.forward(true, Activation::relu), expected, "forward with bias and ReLU");
}

template <class T>
void check_backward(const ConvCase& c) {
  const Operands<T> operands{c};
  check(operands.backward_input(), conv_backward_input(c, operands.dy, operands.weight),
        "backward input");
  const Sums expected = conv_backward_weight(c, operands.x, operands.dy);
  const Sums expected_bias = test::column_sums(operands.dy, c.o);
  const Guarded<T> dweight(c.weight()), dbias({c.o});
  operands.backward_weight(dweight, dbias);
  check(dweight, expected, "backward weight");
  check(dbias, expected_bias, "backward bias");
  const Guarded<T> weight_alone(c.weight()), bias_alone({c.o});
  operands.backward_weight(weight_alone, {});
  check(weight_alone, expected, "backward weight without bias");
  operands.backward_weight({}, bias_alone);
  check(bias_alone, expected_bias, "backward bias without weight");
}

class Conv : public ::testing::TestWithParam<ConvCase> {};

TEST_P(Conv, ForwardEqualsTheDefinition) {
  check_forward<float>(GetParam());
  check_forward<double>(GetParam());
}

TEST_P(Conv, BackwardEqualsTheDefinition) {
  check_backward<float>(GetParam());
  check_backward<double>(GetParam());
}

TEST_P(Conv, BitsDoNotDependOnTheNumberOfThreads) {
  const Operands<float> operands{GetParam()};
  expect_same_for_any_threads([&] {
    const Guarded<float> dweight(operands.c.weight()), dbias({operands.c.o});
    operands.backward_weight(dweight, dbias);
    return std::vector{operands.forward(true, Activation::relu).exact(),
                       operands.backward_input().exact(), dweight.exact(), dbias.exact()};
  });
}

INSTANTIATE_TEST_SUITE_P(Kernels, Conv, ::testing::ValuesIn(conv_cases),
                         [](const auto& test) { return test.param.name; });

// torch.nn.functional.conv2d and its autograd in f64 (PyTorch 1.13) on the same operands, turned to
// (N, H, W, C). The values are multiples of 1/64, so they are exact in f32 as well.
TEST(Conv, ValuesOfPyTorch) {
  const ConvCase c("golden",
                   {1,
                    4,
                    5,
                    2,
                    2,
                    3,
                    2,
                    {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2}});
  ASSERT_EQ(c.y(), Shape({1, 2, 7, 2}));
  const Operands<float> operands{
      c, eighths(40, 7, 3, 17), eighths(12, 5, 1, 13), {0.5, -0.25}, eighths(28, 3, 2, 11)};
  EXPECT_EQ(operands.forward(true, Activation::none).values(),
            (Values{1.015625,  -0.34375,  1.4375,   -0.296875, -1.015625, 0.0,     -0.921875,
                    -0.046875, 1.03125,   0.171875, 0.890625,  -0.28125,  0.5625,  -1.4375,
                    0.453125,  -0.15625,  0.875,    -0.296875, 1.484375,  -0.125,  1.015625,
                    -0.3125,   -1.578125, -0.5,     0.40625,   -0.078125, 0.84375, -0.125}));
  EXPECT_EQ(
      operands.backward_input().values(),
      (Values{-0.015625, -0.0625,   0.171875, 0.171875,  0.015625,  -0.109375, 0.203125, 0.125,
              0.046875,  -0.15625,  0.53125,  -0.015625, -0.3125,   -0.046875, 0.390625, 0.09375,
              -0.453125, 0.234375,  0.25,     0.203125,  -0.078125, 0.03125,   0.109375, -0.25,
              -0.046875, -0.015625, 0.140625, 0.390625,  -0.015625, -0.0625,   0.34375,  -0.03125,
              -0.03125,  0.34375,   0.28125,  0.03125,   -0.09375,  -0.625,    0.21875,  0.09375}));
  const Guarded<float> dweight(c.weight()), dbias({2});
  operands.backward_weight(dweight, dbias);
  EXPECT_EQ(dweight.values(), (Values{-0.203125, -0.296875, 0.265625, 0.34375, -0.46875, -0.4375,
                                      0.28125, -0.421875, 0.90625, 0.4375, 0.078125, -0.09375}));
  EXPECT_EQ(dbias.values(), (Values{-0.25, -0.5}));
}

// An infinite gradient reaches what its window covers, not the neighbours in the vectors.
TEST(Conv, InfiniteGradientsStayInTheirWindow) {
  const ConvCase c("infinite", {1, 1, 8, 3, 1, 1, 2, {}});
  Operands<float> operands{c};
  operands.dy.assign(7, 1);
  operands.dy[2] = HUGE_VAL;
  const Values dx = operands.backward_input().values();
  for (int64_t pixel = 0; pixel < 8; ++pixel) {
    const bool covered = pixel == 2 || pixel == 3;
    for (int64_t channel = 0; channel < 3; ++channel) {
      EXPECT_EQ(std::isfinite(dx[size_t(pixel * 3 + channel)]), !covered) << "pixel " << pixel;
    }
  }
}

}  // namespace
}  // namespace adret
