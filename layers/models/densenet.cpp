// Densely connected networks.
#include <adret/autograd/ops/shape.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <adret/layers/models/densenet.h>
#include <adret/layers/pool.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace blocks;

const DenseLayerOptions& checked(const DenseLayerOptions& options) {
  at_least(1, options.growth, "DenseLayer", "growth");
  at_least(1, options.bn_size, "DenseLayer", "bn_size");
  return options;
}

const DenseNetOptions& checked(const DenseNetOptions& options) {
  at_least(1, options.growth, "DenseNet", "growth");
  at_least(1, options.bn_size, "DenseNet", "bn_size");
  at_least(2, options.channels, "DenseNet", "channels");
  return options;
}

Sequential transition(int64_t channels) {
  Sequential layers;
  layers.append("norm", batch_norm_relu(channels));
  layers.append("conv", conv1x1(channels, channels / 2));
  layers.append("pool", AvgPool2d(2));
  return layers;
}

Sequential make_features(const DenseNetDepth& depth, const DenseNetOptions& options) {
  Sequential features;
  int64_t channels = options.channels;
  const bool large = options.stem == Stem::imagenet;
  features.append(
      "conv0", large ? Conv2d(3, channels, {.kernel = 7, .stride = 2, .padding = 3, .bias = false})
                     : conv3x3(3, channels));
  features.append("norm0", batch_norm_relu(channels));
  if (large) features.append("pool0", MaxPool2d(3, {.stride = 2, .padding = 1}));
  for (size_t i = 0; i < depth.size(); ++i) {
    at_least(1, depth[i], "DenseNet", "layers of a block");
    if (i > 0) {
      features.append(fmt::format("transition{}", i), transition(channels));
      channels /= 2;
    }
    Sequential block;
    for (int64_t j = 1; j <= depth[i]; ++j, channels += options.growth) {
      block.append(fmt::format("denselayer{}", j),
                   DenseLayer(channels, {.growth = options.growth,
                                         .bn_size = options.bn_size,
                                         .dropout = options.dropout}));
    }
    features.append(fmt::format("denseblock{}", i + 1), std::move(block));
  }
  features.append("norm5", batch_norm_relu(channels));
  return features;
}

int64_t last_channels(const DenseNetDepth& depth, const DenseNetOptions& options) {
  int64_t channels = options.channels;
  for (size_t i = 0; i < depth.size(); ++i) {
    channels = (i > 0 ? channels / 2 : channels) + depth[i] * options.growth;
  }
  return channels;
}

}  // namespace

DenseLayer::DenseLayer(int64_t in_channels, const DenseLayerOptions& options)
    : in_channels(in_channels),
      options(checked(options)),
      norm1(add("norm1", batch_norm_relu(in_channels))),
      conv1(add("conv1", conv1x1(in_channels, options.bn_size * options.growth))),
      norm2(add("norm2", batch_norm_relu(options.bn_size * options.growth))),
      conv2(add("conv2", conv3x3(options.bn_size * options.growth, options.growth))),
      drop(add("drop", Dropout(options.dropout))) {}

Tensor DenseLayer::forward(const Tensor& x) {
  return concatenate({x, drop(conv2(norm2(conv1(norm1(x)))))}, -1);
}

DenseNet::DenseNet(const DenseNetDepth& depth, const DenseNetOptions& options)
    : depth(depth),
      options(checked(options)),
      features(add("features", make_features(depth, options))),
      classifier(add("classifier", Linear(last_channels(depth, options), options.classes))) {
  init_convolutions_(*this, init::FanMode::in);
  init::constant_(classifier.bias, 0);
}

Tensor DenseNet::forward(const Tensor& x) { return classifier(global_avg_pool2d(features(x))); }

}  // namespace adret
