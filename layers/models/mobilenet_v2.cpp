// MobileNetV2.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/pool.h>
#include <adret/core/error.h>
#include <adret/layers/activation.h>
#include <adret/layers/check.h>
#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>
#include <adret/layers/models/mobilenet_v2.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace adret {
namespace {

using namespace blocks;

Sequential norm_relu6(Conv2d conv) {
  const int64_t channels = conv.out_channels;
  return Sequential(std::move(conv), BatchNorm2d(channels), ReLU6());
}

Sequential make_block(int64_t in, int64_t out, const InvertedResidualOptions& options) {
  const int64_t hidden = in * at_least(1, options.expansion, "InvertedResidual", "expansion");
  Sequential block;
  if (options.expansion != 1) block.append(norm_relu6(conv1x1(in, hidden)));
  block.append(norm_relu6(conv3x3(hidden, hidden, options.stride, hidden)));
  block.append(conv1x1(hidden, out));
  block.append(BatchNorm2d(out));
  return block;
}

// The multiple of 8 nearest to `channels`, or the next one if that takes more than a tenth off.
int64_t multiple_of_8(double channels) {
  const int64_t nearest = std::max<int64_t>(8, int64_t(channels + 4) / 8 * 8);
  return double(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

const MobileNetV2Options& checked(const MobileNetV2Options& options) {
  if (!(options.width > 0)) {
    throw Error(
        fmt::format("[MobileNetV2] width is {}; the multiplier must be positive", options.width));
  }
  return options;
}

int64_t last_channels(const MobileNetV2Options& options) {
  return multiple_of_8(1280 * std::max(1.0, options.width));
}

// Table 2 of the paper.
Sequential make_features(const MobileNetV2Options& options) {
  struct Row {
    int64_t expansion, channels, blocks, stride;
  };
  const int64_t early_stride = options.stem == Stem::cifar ? 1 : 2;
  const Row rows[] = {{1, 16, 1, 1}, {6, 24, 2, early_stride}, {6, 32, 3, 2}, {6, 64, 4, 2},
                      {6, 96, 3, 1}, {6, 160, 3, 2},           {6, 320, 1, 1}};
  int64_t in = multiple_of_8(32 * options.width);
  Sequential features;
  features.append(norm_relu6(conv3x3(3, in, early_stride)));
  for (const Row& row : rows) {
    const int64_t out = multiple_of_8(double(row.channels) * options.width);
    for (int64_t i = 0; i < row.blocks; ++i, in = out) {
      const int64_t stride = i == 0 ? row.stride : 1;
      features.append(InvertedResidual(in, out, {.stride = stride, .expansion = row.expansion}));
    }
  }
  features.append(norm_relu6(conv1x1(in, last_channels(options))));
  return features;
}

}  // namespace

InvertedResidual::InvertedResidual(int64_t in_channels, int64_t channels,
                                   const InvertedResidualOptions& options)
    : in_channels(in_channels),
      channels(channels),
      options(options),
      conv(add("conv", make_block(in_channels, channels, options))) {}

Tensor InvertedResidual::forward(const Tensor& x) {
  return options.stride == 1 && in_channels == channels ? conv(x) + x : conv(x);
}

MobileNetV2::MobileNetV2(const MobileNetV2Options& options)
    : options(checked(options)),
      features(add("features", make_features(options))),
      classifier(add("classifier", Sequential(Dropout(options.dropout),
                                              Linear(last_channels(options), options.classes)))) {
  init_convolutions_(*this);
  init_linear_(*this);
}

Tensor MobileNetV2::forward(const Tensor& x) { return classifier(global_avg_pool2d(features(x))); }

}  // namespace adret
