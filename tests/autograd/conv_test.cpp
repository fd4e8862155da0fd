// Convolution: values and gradients of PyTorch, derivatives, and every refusal.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Values = std::vector<double>;

struct ConvCase {
  const char* name;
  Shape x, weight;
  Conv2dOptions options;
  Shape y;
  Values out, dx, dweight, dbias;
};

// Values: PyTorch 1.13 in f64, turned to (N, H, W, C); the output's gradient is sequence(y, 3).
const ConvCase pytorch_cases[] = {
    {"plain",
     {1, 3, 3, 2},
     {2, 2, 2, 2},
     {},
     {1, 2, 2, 2},
     {2.003417969, -1.260742188, -4.915039062, -1.475097656, 3.834960938, 2.140136719, -2.245117188,
      3.454589844},
     {1.61328125, 0.5532226562, -4.49609375, 2.430175781, -0.0498046875, 0.6376953125, 1.737792969,
      -2.657226562, 4.180664062, -2.149902344, -0.03564453125, 0.6918945312, -0.1967773438,
      1.104003906, -1.237304688, -0.5869140625, 0.3833007812, -0.2670898438},
     {1.797363281, 0.1254882812, -1.645019531, 4.03125, 3.552734375, -0.8315429688, -2.552734375,
      0.4604492188, -1.026367188, 1.663085938, 1.590820312, -1.982910156, -2.002441406, 1.624023438,
      -2.048339844, 1.676757812},
     {-1.53125, -0.0625}},
    {"stride and padding differ by dimension",
     {2, 3, 2, 1},
     {1, 3, 2, 1},
     {.stride = {2, 1}, .padding = {1, 2}},
     {2, 2, 5, 1},
     {-1.296875,    1.337402344, -3.72265625,  -1.731933594,  -1.296875,    -1.296875, -1.370605469,
      -3.263671875, 1.435058594, -1.296875,    -1.296875,     1.395996094,  -3.078125, -1.145996094,
      -1.296875,    -1.296875,   -2.229980469, -0.9536132812, -1.708007812, -1.296875},
     {1.1015625, -1.962402344, -0.5498046875, -1.203613281, 1.217773438, 0.96484375, 1.333984375,
      1.081054688, -0.9233398438, -0.5908203125, -2.051269531, 1.197265625},
     {-2.912109375, 1.161621094, 0.1123046875, 3.624023438, 1.182128906, -3.029296875},
     {0.625}},
    {"dilation and groups",
     {1, 4, 4, 4},
     {2, 2, 2, 2},
     {.stride = {1, 2}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 2},
     {1, 6, 3, 2},
     {-0.1909179688, -1.064453125,  -1.355957031,  -0.5092773438, -0.3159179688, 0.04541015625,
      -2.514648438,  -0.2377929688, -1.711425781,  -0.0380859375, -0.8627929688, -0.8525390625,
      -3.260742188,  2.319335938,   -0.2680664062, 0.2216796875,  -1.163085938,  -2.9765625,
      0.9716796875,  -1.202636719,  1.344726562,   -4.106933594,  -0.8237304688, 1.000488281,
      0.7680664062,  -1.583984375,  2.169921875,   0.8979492188,  0.4262695312,  1.972167969,
      -2.637695312,  -1.296875,     -0.4975585938, 0.7338867188,  -3.323242188,  1.520996094},
     {0.9741210938,  -0.2734375,    0.9526367188, -1.270507812, 1.571777344,  1.282714844,
      0.3198242188,  -1.19140625,   -1.620117188, 1.493652344,  1.242675781,  -0.2685546875,
      -1.755859375,  -0.3466796875, -1.356445312, 1.493652344,  1.032714844,  -0.7421875,
      0.7377929688,  -2.012695312,  0.7124023438, 1.868652344,  1.159667969,  -0.87890625,
      -1.561523438,  1.024902344,   1.027832031,  -1.010742188, 1.872558594,  1.077636719,
      0.02587890625, -1.30078125,   1.091308594,  -1.2109375,   -1.59765625,  1.437011719,
      -0.294921875,  -1.342773438,  1.999511719,  -0.56640625,  1.012207031,  -0.578125,
      0.8129882812,  -1.752929688,  1.013183594,  1.663574219,  0.8657226562, -0.98828125,
      -1.661132812,  1.821777344,   -1.8125,      0.6948242188, -1.154296875, -0.7568359375,
      -1.944335938,  1.274902344,   1.070800781,  -1.046875,    -1.522460938, 1.696777344,
      0.005859375,   -1.547851562,  1.705566406,  -0.67578125},
     {0.388671875, -1.017089844, -0.6357421875, -1.831542969, -3.091796875, 2.482910156,
      3.223144531, 1.215820312, 1.602539062, -1.535644531, 2.059082031, 1.251464844, -1.82421875,
      0.5385742188, -2.412109375, 4.056640625},
     {-1.15625, 0.71875}},
};

TEST(Conv2d, HasPyTorchsValuesAndGradients) {
  for (const ConvCase& test : pytorch_cases) {
    SCOPED_TRACE(test.name);
    const Tensor x = variable(test.x), weight = variable(test.weight, 5),
                 bias = variable({test.weight[0]}, 9);
    const Tensor y = conv2d(x, weight, bias, test.options);
    expect_values(y, test.y, test.out);
    const std::vector<Tensor> d = gradients(y, {x, weight, bias});
    expect_values(d[0], test.x, test.dx);
    expect_values(d[1], test.weight, test.dweight);
    expect_values(d[2], bias.shape(), test.dbias);
  }
}

TEST(Conv2d, HasDerivativesOfFirstAndSecondOrder) {
  struct Case {
    Shape x, weight;
    Conv2dOptions options;
  };
  const std::vector<Case> cases = {
      {{1, 3, 3, 1}, {2, 2, 2, 1}, {}},
      {{2, 3, 2, 2}, {1, 3, 2, 2}, {.stride = {2, 1}, .padding = 1}},
      {{1, 4, 3, 2}, {2, 2, 2, 1}, {.padding = 1, .dilation = 2, .groups = 2}},
      {{1, 2, 2, 2}, {3, 1, 1, 2}, {.activation = Activation::relu}},
      {{0, 3, 3, 1}, {1, 2, 2, 1}, {}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(to_string(test.x) + to_string(test.weight));
    const auto with_bias = [&](const Inputs& in) {
      return conv2d(in[0], in[1], in[2], test.options);
    };
    const Tensor x = variable(test.x), weight = variable(test.weight, 5),
                 bias = variable({test.weight[0]}, 30);
    expect_gradients(with_bias, {x, weight, bias});
    expect_gradients([&](const Inputs& in) { return conv2d(in[0], in[1], {}, test.options); },
                     {x, weight});
    expect_gradients(with_bias, {x.detach(), weight.detach(), bias});
  }
}

TEST(Conv2d, OfAnEmptyBatchGivesZeroGradients) {
  const Tensor x = variable({0, 4, 4, 2}), weight = variable({3, 3, 3, 2}), bias = variable({3});
  const Tensor y = conv2d(x, weight, bias);
  EXPECT_EQ(y.shape(), Shape({0, 2, 2, 3}));
  const std::vector<Tensor> d = gradients(y, {x, weight, bias});
  EXPECT_EQ(d[0].shape(), Shape({0, 4, 4, 2}));
  expect_values(d[1], {3, 3, 3, 2}, Values(54, 0));
  expect_values(d[2], {3}, {0, 0, 0});
}

TEST(Conv2d, OfNoChannelsIsTheBias) {
  const Tensor x = variable({2, 2, 3, 0}), weight = variable({2, 2, 2, 0});
  const Tensor bias = leaf({3, -4});
  const Tensor y = conv2d(x, weight, bias, {.activation = Activation::relu});
  expect_values(y, {2, 1, 2, 2}, {3, 0, 3, 0, 3, 0, 3, 0});
  const std::vector<Tensor> d = grad({sum(y)}, {x, weight, bias});
  EXPECT_EQ(d[0].shape(), x.shape());
  EXPECT_EQ(d[1].shape(), weight.shape());
  expect_values(d[2], {2}, {4, 0});
  expect_values(conv2d(x, weight), {2, 1, 2, 2}, Values(8, 0));
}

TEST(Conv2d, TakesAWeightThatIsPartOfALargerTensor) {
  const Tensor x = variable({1, 3, 3, 2}), whole = variable({4, 2, 2, 2}, 5);
  const Tensor part = slice(whole, 0, 1, 3), copy = part.detach().clone();
  const Tensor y = conv2d(x, part), wanted = conv2d(x, copy);
  expect_values(y, {1, 2, 2, 2}, wanted.to_vector<double>());
  const std::vector<Tensor> d = gradients(y, {x, whole});
  expect_values(d[0], {1, 3, 3, 2}, gradients(wanted, {x})[0].to_vector<double>());
  EXPECT_EQ(d[1].shape(), whole.shape());
}

TEST(Conv2d, RefusesAKernelThatDoesNotFit) {
  const Tensor x = Tensor::ones({1, 2, 2, 1}), weight = Tensor::ones({1, 3, 3, 1});
  expect_error<ShapeError>([&] { return conv2d(x, weight); },
                           "[conv2d] kernel 3x3 with dilation 1x1 covers 3x3, more than input 2x2 "
                           "with padding 0x0; enlarge the padding or the input");
  EXPECT_EQ(conv2d(x, weight, {}, {.padding = 1}).shape(), Shape({1, 2, 2, 1}));
  expect_error<ShapeError>([&] { return conv2d(x, weight, {}, {.padding = 1, .dilation = 2}); },
                           "kernel 3x3 with dilation 2x2 covers 5x5, more than input 2x2");
}

TEST(Conv2d, RefusesEmptyKernelsAndZeroOptions) {
  const Tensor x = Tensor::ones({1, 4, 4, 4}), weight = Tensor::ones({4, 3, 3, 4});
  expect_error<ShapeError>(
      [&] {
        return conv2d(x, Tensor::ones({4, 0, 3, 4}));
      },
      "[conv2d] kernel 0x3 of weight (4, 0, 3, 4); wanted at least 1x1");
  expect_error<ShapeError>([&] { return conv2d(x, weight, {}, {.groups = 0}); },
                           "[conv2d] groups 0, wanted at least 1");
  expect_error<ShapeError>(
      [&] {
        return conv2d(x, weight, {}, {.stride = {1, 0}});
      },
      "[conv2d] stride 1x0, dilation 1x1, padding 0x0; wanted at least");
  expect_error<ShapeError>([&] { return conv2d(x, weight, {}, {.padding = -1}); }, "padding -1x-1");
  expect_error<ShapeError>([&] { return conv2d(x, weight, {}, {.dilation = 0}); }, "dilation 0x0");
}

TEST(Conv2d, RefusesToFuseGelu) {
  expect_error<ShapeError>(
      [] {
        return conv2d(Tensor::ones({1, 4, 4, 1}), Tensor::ones({1, 3, 3, 1}), {},
                      {.activation = Activation::gelu});
      },
      "[conv2d] activation gelu, wanted none or relu; use gelu(conv2d(...))");
}

TEST(Conv2d, RefusesChannelsThatDoNotGoTogether) {
  const Tensor x = Tensor::ones({1, 8, 8, 3});
  expect_error<ShapeError>(
      [&] {
        return conv2d(x, Tensor::ones({16, 5, 5, 4}));
      },
      "[conv2d] input has 3 channels, weight (16, 5, 5, 4) wants 4");
  const Tensor wide = Tensor::ones({1, 8, 8, 30});
  expect_error<ShapeError>(
      [&] {
        return conv2d(wide, Tensor::ones({16, 3, 3, 3}), {}, {.groups = 8});
      },
      "[conv2d] 30 input channels are not divisible by groups 8");
  expect_error<ShapeError>(
      [&] {
        return conv2d(wide, Tensor::ones({16, 3, 3, 6}), {}, {.groups = 5});
      },
      "[conv2d] 16 output channels are not divisible by groups 5");
  expect_error<ShapeError>(
      [&] {
        return conv2d(wide, Tensor::ones({15, 3, 3, 5}), {}, {.groups = 5});
      },
      "[conv2d] input has 30 channels, weight (15, 3, 3, 5) with groups 5 wants 25");
  expect_error<ShapeError>(
      [&] {
        return conv2d(x, Tensor::ones({16, 5, 5, 3}), Tensor::ones({15}));
      },
      "[conv2d] bias is (15,), wanted (16,)");
  expect_error<ShapeError>(
      [&] {
        return conv2d(Tensor::ones({8, 8, 3}), x);
      },
      "[conv2d] x is (8, 8, 3), wanted (N, H, W, C)");
  expect_error<ShapeError>(
      [&] {
        return conv2d(x, Tensor::ones({16, 75}));
      },
      "[conv2d] weight is (16, 75), wanted (O, KH, KW, C / groups)");
}

}  // namespace
}  // namespace adret
