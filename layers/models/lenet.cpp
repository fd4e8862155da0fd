// LeNet-5.
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/shape.h>
#include <adret/layers/models/lenet.h>

namespace adret {

Tensor LeNet::forward(const Tensor& x) {
  const Tensor h = max_pool2d(conv1(x), 2);
  return fc3(fc2(fc1(flatten(max_pool2d(conv2(h), 2)))));
}

}  // namespace adret
