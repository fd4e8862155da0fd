// Pooling and resampling kernels on the layers of LeNet, MNIST's CNN and ResNet-18.
#include "measure.h"

namespace adret::bench {
namespace {

struct Layer {
  const char* name;
  int64_t batch, size, channels, out;
  kernels::Pool2dParams pool;

  Shape x() const { return {batch, size, size, channels}; }
  Shape y() const { return {batch, out, out, channels}; }
};

const Layer max_layers[] = {
    {"lenet_1:64", 64, 28, 6, 14, {}},
    {"lenet_2:64", 64, 10, 16, 5, {}},
    {"lenet_1:256", 256, 28, 6, 14, {}},
    {"lenet_2:256", 256, 10, 16, 5, {}},
    {"cnn:64", 64, 24, 64, 12, {}},
    {"overlapping_64@32:32", 32, 32, 64, 16, {.kernel = 3, .stride = 2, .padding = 1}},
};
const Layer average_layers[] = {
    {"resnet_head:32", 32, 4, 512, 1, {.kernel = 4, .stride = 4}},
    {"overlapping_64@32:32", 32, 32, 64, 16, {.kernel = 3, .stride = 2, .padding = 1}},
};

kernels::MaxPool2dForward max_forward(const Layer& layer, const Tensor& x, const Tensor& y,
                                      const Tensor& position) {
  return {.x = x, .y = y, .position = position, .pool = layer.pool};
}

void register_max(const Layer& layer) {
  const std::string name = layer.name;
  measure("max_pool2d_forward/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(layer.x()), y = Tensor::empty(layer.y());
    const Tensor position = Tensor::empty(layer.y(), {.dtype = DType::u8});
    return Call({x, y, position}, max_forward(layer, x, y, position));
  });
  measure("max_pool2d_backward/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(layer.x()), dy = random_tensor(layer.y());
    const Tensor y = Tensor::empty(layer.y()), dx = Tensor::empty(layer.x());
    const Tensor position = Tensor::empty(layer.y(), {.dtype = DType::u8});
    run(max_forward(layer, x, y, position));
    return Call(
        {dy, position, dx},
        kernels::MaxPool2dBackward{.dy = dy, .position = position, .dx = dx, .pool = layer.pool});
  });
}

void register_average(const Layer& layer) {
  const std::string name = layer.name;
  measure("avg_pool2d_forward/" + name, layer.batch, [=] {
    const Tensor x = random_tensor(layer.x()), y = Tensor::empty(layer.y());
    return Call({x, y}, kernels::AvgPool2dForward{.x = x, .y = y, .pool = layer.pool});
  });
  measure("avg_pool2d_backward/" + name, layer.batch, [=] {
    const Tensor dy = random_tensor(layer.y()), dx = Tensor::empty(layer.x());
    return Call({dy, dx}, kernels::AvgPool2dBackward{.dy = dy, .dx = dx, .pool = layer.pool});
  });
}

struct Resizing {
  const char* name;
  int64_t batch, from, channels, to;
  kernels::Resampling mode;
};

const Resizing resizings[] = {
    {"nearest_64@32-64:32", 32, 32, 64, 64, kernels::Resampling::nearest},
    {"bilinear_64@32-64:32", 32, 32, 64, 64, kernels::Resampling::bilinear},
    {"area_64@32-7:32", 32, 32, 64, 7, kernels::Resampling::area},
};

void register_resizing(const Resizing& r) {
  const std::string name = r.name;
  const Shape x_shape{r.batch, r.from, r.from, r.channels},
      y_shape{r.batch, r.to, r.to, r.channels};
  const kernels::ResampleParams params{.mode = r.mode};
  measure("resample_forward/" + name, r.batch, [=] {
    const Tensor x = random_tensor(x_shape), y = Tensor::empty(y_shape);
    return Call({x, y}, kernels::ResampleForward{.x = x, .y = y, .resample = params});
  });
  measure("resample_backward/" + name, r.batch, [=] {
    const Tensor dy = random_tensor(y_shape), dx = Tensor::empty(x_shape);
    return Call({dy, dx}, kernels::ResampleBackward{.dy = dy, .dx = dx, .resample = params});
  });
}

const bool registered = [] {
  for (const Layer& layer : max_layers) register_max(layer);
  for (const Layer& layer : average_layers) register_average(layer);
  for (const Resizing& resizing : resizings) register_resizing(resizing);
  return true;
}();

}  // namespace
}  // namespace adret::bench
