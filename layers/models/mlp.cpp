// A multilayer perceptron for MNIST.
#include <adret/autograd/ops/shape.h>
#include <adret/layers/models/mlp.h>

namespace adret {

Tensor Mlp::forward(const Tensor& x) { return fc2(fc1(flatten(x))); }

}  // namespace adret
