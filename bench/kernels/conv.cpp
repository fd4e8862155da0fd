// Convolution kernels on the layers of LeNet, MNIST's CNN and ResNet-18, in all directions.
#include "measure.h"

namespace adret::bench {
namespace {

struct Layer {
  const char* name;
  int64_t batch, size, channels, outputs, kernel;
  kernels::Conv2dParams conv;

  int64_t out() const { return (size + 2 * conv.padding.h - kernel) / conv.stride.h + 1; }
  Shape x() const { return {batch, size, size, channels}; }
  Shape weight() const { return {outputs, kernel, kernel, channels / conv.groups}; }
  Shape y() const { return {batch, out(), out(), outputs}; }
};

const Layer layers[] = {
    {"lenet_1:64", 64, 28, 1, 6, 5, {.padding = 2}},
    {"lenet_2:64", 64, 14, 6, 16, 5, {}},
    {"lenet_1:256", 256, 28, 1, 6, 5, {.padding = 2}},
    {"lenet_2:256", 256, 14, 6, 16, 5, {}},
    {"cnn_1:64", 64, 28, 1, 32, 3, {}},
    {"cnn_2:64", 64, 26, 32, 64, 3, {}},
    {"resnet_stem:32", 32, 32, 3, 64, 3, {.padding = 1}},
    {"resnet_64@32:32", 32, 32, 64, 64, 3, {.padding = 1}},
    {"resnet_64_128_stride_2:32", 32, 32, 64, 128, 3, {.stride = 2, .padding = 1}},
    {"resnet_64_128_shortcut:32", 32, 32, 64, 128, 1, {.stride = 2}},
    {"resnet_128@16:32", 32, 16, 128, 128, 3, {.padding = 1}},
    {"resnet_256@8:32", 32, 8, 256, 256, 3, {.padding = 1}},
    {"resnet_512@4:32", 32, 4, 512, 512, 3, {.padding = 1}},
    {"depthwise_64@32:32", 32, 32, 64, 64, 3, {.padding = 1, .groups = 64}},
};

void register_layer(const Layer& layer) {
  const std::string name = layer.name;
  measure("conv2d_forward/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(layer.x()), weight = random_tensor(layer.weight());
    const Tensor bias = random_tensor({layer.outputs}), y = Tensor::empty(layer.y());
    return Call({x, weight, bias, y},
                kernels::Conv2dForward{.x = x,
                                       .weight = weight,
                                       .bias = bias,
                                       .y = y,
                                       .conv = layer.conv,
                                       .activation = kernels::Activation::relu});
  });
  measure("conv2d_backward_input/" + name, layer.batch, [=] {
    const Tensor dy = random_tensor(layer.y()), weight = random_tensor(layer.weight());
    const Tensor dx = Tensor::empty(layer.x());
    return Call({dy, weight, dx}, kernels::Conv2dBackwardInput{
                                      .dy = dy, .weight = weight, .dx = dx, .conv = layer.conv});
  });
  measure("conv2d_backward_weight/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(layer.x()), dy = random_tensor(layer.y());
    const Tensor dweight = Tensor::empty(layer.weight()), dbias = Tensor::empty({layer.outputs});
    return Call({x, dy, dweight, dbias},
                kernels::Conv2dBackwardWeight{
                    .x = x, .dy = dy, .dweight = dweight, .dbias = dbias, .conv = layer.conv});
  });
}

const bool registered = [] {
  for (const Layer& layer : layers) register_layer(layer);
  return true;
}();

}  // namespace
}  // namespace adret::bench
