// Linear layers of MNIST's models in all directions, and plain matrix products.
#include "measure.h"

namespace adret::bench {
namespace {

struct Layer {
  const char* name;
  int64_t batch, in, out;
};

const Layer layers[] = {
    {"mlp_1:64", 64, 784, 256},      {"mlp_2:64", 64, 256, 10},      {"mlp_1:256", 256, 784, 256},
    {"mlp_2:256", 256, 256, 10},     {"lenet_1:64", 64, 400, 120},   {"lenet_2:64", 64, 120, 84},
    {"lenet_3:64", 64, 84, 10},      {"lenet_1:256", 256, 400, 120}, {"lenet_2:256", 256, 120, 84},
    {"lenet_3:256", 256, 84, 10},    {"cnn_1:64", 64, 9216, 128},    {"cnn_2:64", 64, 128, 10},
    {"resnet_head:32", 32, 512, 10},
};

void register_layer(const Layer& layer) {
  const std::string name = layer.name;
  const Shape x_shape{layer.batch, layer.in}, y_shape{layer.batch, layer.out};
  const Shape weight_shape{layer.out, layer.in};
  measure("linear_forward/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(x_shape), weight = random_tensor(weight_shape);
    const Tensor bias = random_tensor({layer.out}), y = Tensor::empty(y_shape);
    return Call({x, weight, bias, y},
                kernels::LinearForward{.x = x,
                                       .weight = weight,
                                       .bias = bias,
                                       .y = y,
                                       .activation = kernels::Activation::relu});
  });
  measure("linear_backward_input/" + name, layer.batch, [=] {
    const Tensor dy = random_tensor(y_shape), weight = random_tensor(weight_shape);
    const Tensor dx = Tensor::empty(x_shape);
    return Call({dy, weight, dx},
                kernels::LinearBackwardInput{.dy = dy, .weight = weight, .dx = dx});
  });
  measure("linear_backward_weight/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(x_shape), dy = random_tensor(y_shape);
    const Tensor dweight = Tensor::empty(weight_shape), dbias = Tensor::empty({layer.out});
    return Call({x, dy, dweight, dbias}, kernels::LinearBackwardWeight{
                                             .x = x, .dy = dy, .dweight = dweight, .dbias = dbias});
  });
}

void register_product(int64_t size) {
  measure("matmul/" + std::to_string(size), 1, [=] {
    const Tensor a = random_tensor({size, size}), b = random_tensor({size, size});
    const Tensor y = Tensor::empty({size, size});
    return Call({a, b, y}, kernels::Matmul{.a = a, .b = b, .y = y});
  });
}

const bool registered = [] {
  for (const Layer& layer : layers) register_layer(layer);
  for (const int64_t size : {64, 256, 1024}) register_product(size);
  return true;
}();

}  // namespace
}  // namespace adret::bench
