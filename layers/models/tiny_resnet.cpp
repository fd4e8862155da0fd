// The residual network for CPUs.
#include <adret/autograd/ops/pool.h>
#include <adret/layers/models/tiny_resnet.h>

namespace adret {

using namespace blocks;

TinyResNet::TinyResNet(const TinyResNetOptions& options)
    : options(options),
      conv1(add("conv1", conv3x3(3, options.width))),
      bn1(add("bn1", batch_norm_relu(options.width))),
      conv2(add("conv2", conv3x3(options.width, 2 * options.width))),
      bn2(add("bn2", batch_norm_relu(2 * options.width))),
      block2(add("block2", BasicBlock(2 * options.width, 2 * options.width))),
      conv3(add("conv3", conv3x3(2 * options.width, 4 * options.width))),
      bn3(add("bn3", batch_norm_relu(4 * options.width))),
      conv4(add("conv4", conv3x3(4 * options.width, 8 * options.width))),
      bn4(add("bn4", batch_norm_relu(8 * options.width))),
      block4(add("block4", BasicBlock(8 * options.width, 8 * options.width))),
      fc(add("fc", Linear(8 * options.width, options.classes))) {
  init_convolutions_(*this);
}

// Pooling before normalisation leaves it a quarter of the elements.
Tensor TinyResNet::forward(const Tensor& x) {
  Tensor h = bn1(conv1(x));
  h = block2(bn2(max_pool2d(conv2(h), 2)));
  h = bn3(max_pool2d(conv3(h), 2));
  h = block4(bn4(max_pool2d(conv4(h), 2)));
  return fc(global_avg_pool2d(h));
}

}  // namespace adret
