// The network of PyTorch's own MNIST example.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/models/mnist_cnn.h>

namespace adret {

// ReLU and max pooling commute; behind it there is a quarter of the elements to do.
Tensor MnistCnn::forward(const Tensor& x) {
  const Tensor h = dropout1(relu(max_pool2d(conv2(conv1(x)), 2)));
  return fc2(dropout2(fc1(flatten(h))));
}

}  // namespace adret
