// Every layer of one tensor with PyTorch's state gives PyTorch's results, gradients and statistics.
// make_layers.py made the file.
#include <adret/autograd/engine.h>
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/activation.h>
#include <adret/layers/conv.h>
#include <adret/layers/embedding.h>
#include <adret/layers/flatten.h>
#include <adret/layers/group_norm.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/pad.h>
#include <adret/layers/pool.h>
#include <adret/layers/resample.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "tests/support/golden.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;

struct LayerCase {
  std::string name;
  std::function<std::unique_ptr<Module>()> make;
};
using Cases = std::vector<LayerCase>;

template <class L>
LayerCase of(const char* name, L layer) {
  const auto shared = std::make_shared<L>(std::move(layer));
  return {name, [=] { return std::make_unique<L>(shared->clone()); }};
}

Cases activation_cases() {
  return {
      of("Identity", Identity()),
      of("ReLU", ReLU()),
      of("ReLU6", ReLU6()),
      of("Sigmoid", Sigmoid()),
      of("Tanh", Tanh()),
      of("GELU", GELU()),
      of("GELU/tanh", GELU(GeluForm::tanh)),
      of("SiLU", SiLU()),
      of("Mish", Mish()),
      of("Softplus", Softplus()),
      of("Softplus/beta", Softplus({.beta = 2, .threshold = 3})),
      of("ELU", ELU()),
      of("ELU/alpha", ELU(0.7)),
      of("SELU", SELU()),
      of("LeakyReLU", LeakyReLU()),
      of("LeakyReLU/slope", LeakyReLU(0.3)),
      of("Hardswish", Hardswish()),
      of("Hardsigmoid", Hardsigmoid()),
      of("Hardtanh", Hardtanh()),
      of("Hardtanh/bounds", Hardtanh(-2, 0.5)),
      of("Softsign", Softsign()),
      of("LogSigmoid", LogSigmoid()),
      of("CELU", CELU()),
      of("CELU/alpha", CELU(0.5)),
      of("Threshold", Threshold(0.25, -3)),
      of("Hardshrink", Hardshrink()),
      of("Hardshrink/lambda", Hardshrink(1.25)),
      of("Softshrink", Softshrink()),
      of("Softshrink/lambda", Softshrink(1.25)),
      of("Tanhshrink", Tanhshrink()),
      of("PReLU", PReLU()),
      of("PReLU/channels", PReLU(3)),
      of("GLU", GLU()),
      of("GLU/of_dimension", GLU(1)),
      of("Softmax", Softmax()),
      of("Softmax/of_dimension", Softmax(1)),
      of("LogSoftmax", LogSoftmax()),
      of("LogSoftmax/of_dimension", LogSoftmax(1)),
  };
}

Cases product_cases() {
  return {
      of("Linear", Linear(4, 3)),
      of("Linear/no_bias", Linear(4, 3, {.bias = false})),
      of("Linear/relu", Linear(4, 3, {.activation = Activation::relu})),
      of("Embedding", Embedding(5, 3)),
      of("Embedding/padding", Embedding(5, 3, {.padding_idx = 2})),
      of("Flatten", Flatten()),
      of("Unflatten", Unflatten(1, {2, 3})),
      of("Unflatten/last", Unflatten(-1, {4, 2})),
      of("Flatten/images", Flatten()),
      of("Flatten/volumes", Flatten()),
  };
}

Cases convolution_cases() {
  return {
      of("Conv1d", Conv1d(3, 4, {.kernel = 3})),
      of("Conv1d/strided",
         Conv1d(
             4, 2,
             {.kernel = 3, .stride = 2, .padding = 3, .dilation = 2, .groups = 2, .bias = false})),
      of("Conv1d/same", Conv1d(2, 3, {.kernel = 4, .padding = Pad::same})),
      of("Conv2d", Conv2d(3, 4, {.kernel = 3, .padding = 1})),
      of("Conv2d/strided", Conv2d(6, 4,
                                  {.kernel = {2, 3},
                                   .stride = {2, 1},
                                   .padding = {1, 0},
                                   .dilation = {1, 2},
                                   .groups = 2,
                                   .bias = false})),
      of("Conv2d/depthwise", Conv2d(3, 6, {.kernel = 3, .groups = 3})),
      of("Conv3d",
         Conv3d(2, 4,
                {.kernel = {2, 3, 1}, .stride = {1, 2, 1}, .padding = {1, 1, 0}, .groups = 2})),
      of("ConvTranspose1d",
         ConvTranspose1d(
             4, 2, {.kernel = 3, .stride = 2, .padding = 1, .output_padding = 1, .groups = 2})),
      of("ConvTranspose2d", ConvTranspose2d(3, 2, {.kernel = {3, 2}, .stride = 2})),
      of("ConvTranspose2d/dilated",
         ConvTranspose2d(4, 6,
                         {.kernel = 3, .padding = 1, .dilation = 2, .groups = 2, .bias = false})),
      of("ConvTranspose3d",
         ConvTranspose3d(
             4, 2, {.kernel = {2, 3, 1}, .stride = {1, 2, 2}, .padding = {0, 1, 0}, .groups = 2})),
  };
}

Cases pool_cases() {
  const Pool1dOptions of_lines{.stride = 2, .padding = 1, .ceil_mode = true};
  const Pool2dOptions of_images{.stride = 2, .padding = 1, .ceil_mode = true};
  const Pool3dOptions of_volumes{.stride = 2, .padding = 1, .ceil_mode = true};
  const auto unpadded = [](auto options) {
    options.count_include_pad = false;
    return options;
  };
  return {
      of("MaxPool1d", MaxPool1d(2)),
      of("MaxPool1d/overlapping", MaxPool1d(3, of_lines)),
      of("AvgPool1d", AvgPool1d(2)),
      of("AvgPool1d/unpadded", AvgPool1d(3, unpadded(of_lines))),
      of("AdaptiveMaxPool1d", AdaptiveMaxPool1d(3)),
      of("AdaptiveAvgPool1d", AdaptiveAvgPool1d(3)),
      of("MaxPool2d", MaxPool2d(2)),
      of("MaxPool2d/overlapping", MaxPool2d(3, of_images)),
      of("AvgPool2d", AvgPool2d(2)),
      of("AvgPool2d/unpadded", AvgPool2d(3, unpadded(of_images))),
      of("AdaptiveMaxPool2d", AdaptiveMaxPool2d(3)),
      of("AdaptiveAvgPool2d", AdaptiveAvgPool2d(3)),
      of("MaxPool3d", MaxPool3d(2)),
      of("MaxPool3d/overlapping", MaxPool3d(3, of_volumes)),
      of("AvgPool3d", AvgPool3d(2)),
      of("AvgPool3d/unpadded", AvgPool3d(3, unpadded(of_volumes))),
      of("AdaptiveMaxPool3d", AdaptiveMaxPool3d(3)),
      of("AdaptiveAvgPool3d", AdaptiveAvgPool3d(3)),
      of("GlobalAvgPool2d", GlobalAvgPool2d()),
      of("GlobalMaxPool2d", GlobalMaxPool2d()),
  };
}

Cases norm_cases() {
  const BatchNormLayerOptions options{.momentum = 0.3, .epsilon = 0.1, .affine = false};
  const InstanceNormOptions affine{.epsilon = 0.1, .affine = true};
  return {
      of("LayerNorm", LayerNorm(5)),
      of("LayerNorm/two", LayerNorm({3, 5}, {.epsilon = 0.1})),
      of("LayerNorm/plain", LayerNorm(5, {.affine = false})),
      of("RMSNorm", RMSNorm(5, {.epsilon = 1e-3})),
      of("GroupNorm", GroupNorm(2, 6)),
      of("GroupNorm/plain", GroupNorm(3, 6, {.epsilon = 0.1, .affine = false})),
      of("BatchNorm1d", BatchNorm1d(3)),
      of("BatchNorm1d/eval", BatchNorm1d(3)),
      of("BatchNorm1d/options", BatchNorm1d(3, options)),
      of("BatchNorm1d/samples", BatchNorm1d(3)),
      of("InstanceNorm1d", InstanceNorm1d(3)),
      of("InstanceNorm1d/affine", InstanceNorm1d(3, affine)),
      of("BatchNorm2d", BatchNorm2d(3)),
      of("BatchNorm2d/eval", BatchNorm2d(3)),
      of("BatchNorm2d/options", BatchNorm2d(3, options)),
      of("InstanceNorm2d", InstanceNorm2d(3)),
      of("InstanceNorm2d/affine", InstanceNorm2d(3, affine)),
      of("BatchNorm3d", BatchNorm3d(3)),
      of("BatchNorm3d/eval", BatchNorm3d(3)),
      of("BatchNorm3d/options", BatchNorm3d(3, options)),
      of("InstanceNorm3d", InstanceNorm3d(3)),
      of("InstanceNorm3d/affine", InstanceNorm3d(3, affine)),
  };
}

Cases resample_cases() {
  const Interpolation linear = Interpolation::linear;
  const Size2 of_images(2, 3);
  const Size3 of_volumes(1, 3, 2);
  return {
      of("Upsample1d", Upsample1d()),
      of("Upsample1d/nearest", Upsample1d({.factor = 3})),
      of("Upsample1d/linear", Upsample1d({.factor = 3, .mode = linear})),
      of("Upsample1d/linear_corners",
         Upsample1d({.factor = 3, .mode = linear, .align_corners = true})),
      of("Upsample", Upsample()),
      of("Upsample/nearest", Upsample({.factor = of_images})),
      of("Upsample/linear", Upsample({.factor = of_images, .mode = Interpolation::bilinear})),
      of("Upsample/linear_corners",
         Upsample({.factor = of_images, .mode = linear, .align_corners = true})),
      of("Upsample3d", Upsample3d()),
      of("Upsample3d/nearest", Upsample3d({.factor = of_volumes})),
      of("Upsample3d/linear", Upsample3d({.factor = of_volumes, .mode = Interpolation::trilinear})),
      of("Upsample3d/linear_corners",
         Upsample3d({.factor = of_volumes, .mode = linear, .align_corners = true})),
      of("PixelShuffle", PixelShuffle(2)),
      of("PixelUnshuffle", PixelUnshuffle(2)),
  };
}

Cases pad_cases() {
  const DirectionPaddings<1> of_lines{{1, 2}};
  const DirectionPaddings<2> of_images{{1, 2}, {2, 0}};
  const DirectionPaddings<3> of_volumes{{0, 1}, {2, 1}, {1, 0}};
  return {
      of("ZeroPad1d", ZeroPad1d(1)),
      of("ZeroPad1d/each", ZeroPad1d(of_lines)),
      of("ReflectionPad1d", ReflectionPad1d(1)),
      of("ReflectionPad1d/each", ReflectionPad1d(of_lines)),
      of("ReplicationPad1d", ReplicationPad1d(1)),
      of("ReplicationPad1d/each", ReplicationPad1d(of_lines)),
      of("CircularPad1d", CircularPad1d(1)),
      of("CircularPad1d/each", CircularPad1d(of_lines)),
      of("ConstantPad1d", ConstantPad1d(1, -1.5)),
      of("ConstantPad1d/each", ConstantPad1d(of_lines, -1.5)),
      of("ZeroPad2d", ZeroPad2d(1)),
      of("ZeroPad2d/each", ZeroPad2d(of_images)),
      of("ReflectionPad2d", ReflectionPad2d(1)),
      of("ReflectionPad2d/each", ReflectionPad2d(of_images)),
      of("ReplicationPad2d", ReplicationPad2d(1)),
      of("ReplicationPad2d/each", ReplicationPad2d(of_images)),
      of("CircularPad2d", CircularPad2d(1)),
      of("CircularPad2d/each", CircularPad2d(of_images)),
      of("ConstantPad2d", ConstantPad2d(1, -1.5)),
      of("ConstantPad2d/each", ConstantPad2d(of_images, -1.5)),
      of("ZeroPad3d", ZeroPad3d(1)),
      of("ZeroPad3d/each", ZeroPad3d(of_volumes)),
      of("ReflectionPad3d", ReflectionPad3d(1)),
      of("ReflectionPad3d/each", ReflectionPad3d(of_volumes)),
      of("ReplicationPad3d", ReplicationPad3d(1)),
      of("ReplicationPad3d/each", ReplicationPad3d(of_volumes)),
      of("CircularPad3d", CircularPad3d(1)),
      of("CircularPad3d/each", CircularPad3d(of_volumes)),
      of("ConstantPad3d", ConstantPad3d(1, -1.5)),
      of("ConstantPad3d/each", ConstantPad3d(of_volumes, -1.5)),
  };
}

Cases layer_cases() {
  Cases all;
  for (const Cases& part : {activation_cases(), product_cases(), convolution_cases(), pool_cases(),
                            norm_cases(), resample_cases(), pad_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// -- the comparison ------------------------------------------------------------------------------

const std::map<std::string, Tensor>& golden() {
  static const auto all = read_golden("layers.safetensors");
  return all;
}

// A parameter, or its gradient, in our layout.
Tensor in_memory(const Tensor& x, FileLayout layout) {
  if (layout != FileLayout::conv_weight) return x;
  std::vector<int> order{0};
  for (int dim = 2; dim < x.rank(); ++dim) order.push_back(dim);
  order.push_back(1);
  return permute(x, order);
}

void expect_equal(const Tensor& actual, const Tensor& expected, DType dtype,
                  const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const auto values = expected.to(DType::f64).to_vector<double>();
  expect_close(actual.detach().to(DType::f64).to_vector<double>(), values,
               rounding_tolerance(dtype, values), what);
}

void expect_golden(const LayerCase& test, DType dtype) {
  const auto of_case = [&](const std::string& key) { return golden().at(test.name + ":" + key); };
  const auto layer = test.make();
  layer->to(dtype);
  layer->train(!test.name.ends_with("/eval"));
  std::vector<Tensor> leaves, wanted;
  std::vector<std::string> names;
  for (const auto& [key, parameter] : layer->named_parameters()) {
    parameter->replace(in_memory(of_case("p." + key), parameter->layout).to(dtype));
    leaves.push_back(parameter->value);
    wanted.push_back(in_memory(of_case("d." + key), parameter->layout));
    names.push_back("d." + key);
  }
  for (const auto& [key, tensor] : layer->named_buffers()) {
    const NoGrad no_grad;
    const Tensor value = of_case("p." + key);
    copy_(tensor, is_floating(value.dtype()) ? value.to(dtype) : value);
  }
  Tensor x = of_case("x");
  if (is_floating(x.dtype())) {
    x = x.to(dtype).clone().set_requires_grad(true);
    leaves.push_back(x);
    wanted.push_back(of_case("dx"));
    names.push_back("dx");
  }
  const Tensor y = layer->call(x);
  EXPECT_EQ(y.dtype(), dtype);
  expect_equal(y, of_case("y"), dtype, "y");
  const auto gradients = grad({y}, leaves, {.grad_outputs = {sequence(y.shape(), 3).to(dtype)}});
  for (size_t i = 0; i < leaves.size(); ++i) {
    expect_equal(gradients[i], wanted[i], dtype, names[i]);
  }
  for (const auto& [key, tensor] : layer->named_buffers()) {
    expect_equal(tensor, of_case("b." + key), dtype, key);
  }
}

TEST(Layers, HavePyTorchsValuesAndGradients) {
  for (const LayerCase& test : layer_cases()) {
    for (DType dtype : {DType::f64, DType::f32}) {
      SCOPED_TRACE(test.name + " in " + name(dtype));
      expect_golden(test, dtype);
    }
  }
}

TEST(Layers, HaveACaseForEachOfPyTorchs) {
  std::set<std::string> ours, theirs;
  for (const LayerCase& test : layer_cases()) ours.insert(test.name);
  for (const auto& [key, tensor] : golden()) theirs.insert(key.substr(0, key.find(':')));
  EXPECT_EQ(ours, theirs);
}

}  // namespace
}  // namespace adret
