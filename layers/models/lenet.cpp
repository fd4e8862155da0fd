// LeNet-5.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/models/lenet.h>

namespace adret {

// ReLU and max pooling commute; behind it there is a quarter of the elements to do.
Tensor LeNet::forward(const Tensor& x) {
  Tensor h = relu(max_pool2d(conv1(x), 2));
  h = relu(max_pool2d(conv2(h), 2));
  return fc3(fc2(fc1(flatten(h))));
}

}  // namespace adret
