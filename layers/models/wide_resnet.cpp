// Wide residual networks.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/pool.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <adret/layers/models/wide_resnet.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace blocks;

const WideResNetOptions& checked(const WideResNetOptions& options) {
  if (options.depth < 10 || (options.depth - 4) % 6 != 0) {
    throw Error(fmt::format("[WideResNet] depth is {}; it must be 6 n + 4: 10, 16, 22, 28, ...",
                            options.depth));
  }
  at_least(1, options.width, "WideResNet", "width");
  return options;
}

Sequential group(const WideResNetOptions& options, int64_t in, int64_t channels, int64_t stride) {
  Sequential blocks(WideBlock(in, channels, stride, options.dropout));
  for (int64_t i = 1; i < (options.depth - 4) / 6; ++i) {
    blocks.append(WideBlock(channels, channels, 1, options.dropout));
  }
  return blocks;
}

}  // namespace

WideBlock::WideBlock(int64_t in_channels, int64_t channels, int64_t stride, double dropout)
    : in_channels(in_channels),
      channels(channels),
      stride(stride),
      bn1(add("bn1", batch_norm_relu(in_channels))),
      conv1(add("conv1", conv3x3(in_channels, channels, stride))),
      bn2(add("bn2", batch_norm_relu(channels))),
      drop(add("dropout", Dropout(dropout))),
      conv2(add("conv2", conv3x3(channels, channels))),
      shortcut(in_channels != channels || stride != 1
                   ? &add("shortcut", conv1x1(in_channels, channels, stride))
                   : nullptr) {}

Tensor WideBlock::forward(const Tensor& x) {
  const Tensor h = bn1(x);
  const Tensor identity = shortcut != nullptr ? (*shortcut)(h) : x;
  return conv2(drop(bn2(conv1(h)))) + identity;
}

WideResNet::WideResNet(const WideResNetOptions& options)
    : options(checked(options)),
      conv1(add("conv1", conv3x3(3, 16))),
      layer1(add("layer1", group(options, 16, 16 * options.width, 1))),
      layer2(add("layer2", group(options, 16 * options.width, 32 * options.width, 2))),
      layer3(add("layer3", group(options, 32 * options.width, 64 * options.width, 2))),
      bn1(add("bn1", batch_norm_relu(64 * options.width))),
      fc(add("fc", Linear(64 * options.width, options.classes))) {
  init_convolutions_(*this);
  init::constant_(fc.bias, 0);
}

Tensor WideResNet::forward(const Tensor& x) {
  const Tensor h = layer3(layer2(layer1(conv1(x))));
  return fc(global_avg_pool2d(bn1(h)));
}

}  // namespace adret
