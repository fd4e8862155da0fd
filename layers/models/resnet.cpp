// Residual networks.
#include <adret/autograd/ops/pool.h>
#include <adret/layers/check.h>
#include <adret/layers/models/resnet.h>

namespace adret {
namespace {

using namespace blocks;

// The shortcut's projection ("option B").
Sequential projection(int64_t in, int64_t out, int64_t stride) {
  return Sequential(conv1x1(in, out, stride), BatchNorm2d(out));
}

bool changes_shape(int64_t in, int64_t out, int64_t stride) { return stride != 1 || in != out; }

template <class Block>
Sequential stage(int64_t in, int64_t channels, int64_t depth, int64_t stride) {
  at_least(1, depth, "ResNet", "blocks of a layer");
  Sequential blocks(Block(in, channels, stride));
  for (int64_t i = 1; i < depth; ++i) blocks.append(Block(channels * Block::expansion, channels));
  return blocks;
}

Sequential stage(const ResNetDepth& depth, int number) {
  const int64_t channels = int64_t{64} << number;
  const int64_t before = number == 0 ? 64 : channels / 2;
  const int64_t stride = number == 0 ? 1 : 2, length = depth.blocks[size_t(number)];
  if (!depth.bottleneck) return stage<BasicBlock>(before, channels, length, stride);
  const int64_t in = number == 0 ? before : before * Bottleneck::expansion;
  return stage<Bottleneck>(in, channels, length, stride);
}

Conv2d stem(Stem stem) {
  if (stem == Stem::cifar) return conv3x3(3, 64);
  return Conv2d(3, 64, {.kernel = 7, .stride = 2, .padding = 3, .bias = false});
}

}  // namespace

BasicBlock::BasicBlock(int64_t in_channels, int64_t channels, int64_t stride)
    : in_channels(in_channels),
      channels(channels),
      stride(stride),
      conv1(add("conv1", conv3x3(in_channels, channels, stride))),
      bn1(add("bn1", batch_norm_relu(channels))),
      conv2(add("conv2", conv3x3(channels, channels))),
      bn2(add("bn2", batch_norm_relu(channels))),
      downsample(changes_shape(in_channels, channels, stride)
                     ? &add("downsample", projection(in_channels, channels, stride))
                     : nullptr) {}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor shortcut = downsample != nullptr ? (*downsample)(x) : x;
  return bn2(conv2(bn1(conv1(x))), shortcut);
}

Bottleneck::Bottleneck(int64_t in_channels, int64_t channels, int64_t stride)
    : in_channels(in_channels),
      channels(channels),
      stride(stride),
      conv1(add("conv1", conv1x1(in_channels, channels))),
      bn1(add("bn1", batch_norm_relu(channels))),
      conv2(add("conv2", conv3x3(channels, channels, stride))),
      bn2(add("bn2", batch_norm_relu(channels))),
      conv3(add("conv3", conv1x1(channels, expansion * channels))),
      bn3(add("bn3", batch_norm_relu(expansion * channels))),
      downsample(changes_shape(in_channels, expansion * channels, stride)
                     ? &add("downsample", projection(in_channels, expansion * channels, stride))
                     : nullptr) {}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor shortcut = downsample != nullptr ? (*downsample)(x) : x;
  return bn3(conv3(bn2(conv2(bn1(conv1(x))))), shortcut);
}

ResNet::ResNet(const ResNetDepth& depth, const ResNetOptions& options)
    : depth(depth),
      options(options),
      conv1(add("conv1", stem(options.stem))),
      bn1(add("bn1", batch_norm_relu(64))),
      layer1(add("layer1", stage(depth, 0))),
      layer2(add("layer2", stage(depth, 1))),
      layer3(add("layer3", stage(depth, 2))),
      layer4(add("layer4", stage(depth, 3))),
      fc(add("fc", Linear(512 * (depth.bottleneck ? Bottleneck::expansion : BasicBlock::expansion),
                          options.classes))) {
  init_convolutions_(*this);
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor h = bn1(conv1(x));
  if (options.stem == Stem::imagenet) h = max_pool2d(h, 3, {.stride = 2, .padding = 1});
  h = layer4(layer3(layer2(layer1(h))));
  return fc(global_avg_pool2d(h));
}

}  // namespace adret
