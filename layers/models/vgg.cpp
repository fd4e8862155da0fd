// The networks of 3x3 convolutions.
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/layers/check.h>
#include <adret/layers/dropout.h>
#include <adret/layers/init.h>
#include <adret/layers/models/vgg.h>
#include <adret/layers/pool.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace blocks;

// The names count ReLU as a layer of its own, as PyTorch has it.
Sequential make_features(const VggDepth& depth, bool batch_norm) {
  constexpr std::array<int64_t, 5> widths{64, 128, 256, 512, 512};
  Sequential features;
  int64_t in = 3, number = 0;
  const auto append = [&](auto layer) {
    features.append(std::to_string(number), std::move(layer));
  };
  for (size_t resolution = 0; resolution < depth.size(); ++resolution) {
    const int64_t out = widths[resolution];
    for (int64_t i = 0; i < at_least(1, depth[resolution], "Vgg", "convolutions"); ++i, in = out) {
      const Activation activation = batch_norm ? Activation::none : Activation::relu;
      append(Conv2d(in, out, {.kernel = 3, .padding = 1, .activation = activation}));
      ++number;
      if (batch_norm) {
        append(batch_norm_relu(out));
        ++number;
      }
      ++number;
    }
    append(MaxPool2d(2));
    ++number;
  }
  return features;
}

Sequential make_classifier(const VggOptions& options) {
  if (options.head == Stem::cifar) return Sequential(Linear(512, options.classes));
  Sequential classifier;
  classifier.append("0", Linear(512 * 7 * 7, 4096, {.activation = Activation::relu}));
  classifier.append("2", Dropout(options.dropout));
  classifier.append("3", Linear(4096, 4096, {.activation = Activation::relu}));
  classifier.append("5", Dropout(options.dropout));
  classifier.append("6", Linear(4096, options.classes));
  return classifier;
}

// (N, 7 a, 7 b, 512) -> (N, 7, 7, 512).
Tensor average_to_7x7(const Tensor& features) {
  const int64_t h = features.size(1), w = features.size(2);
  if (h % 7 != 0 || w % 7 != 0) {
    throw ShapeError(
        fmt::format("[Vgg] imagenet's head takes images whose sides are multiples of "
                    "224, these have features of {}x{}; resize them, or choose .head "
                    "= Stem::cifar",
                    h, w));
  }
  return h == 7 && w == 7 ? features : avg_pool2d(features, {h / 7, w / 7});
}

}  // namespace

Vgg::Vgg(const VggDepth& depth, const VggOptions& options)
    : depth(depth),
      options(options),
      features(add("features", make_features(depth, options.batch_norm))),
      classifier(add("classifier", make_classifier(options))) {
  init_convolutions_(*this);
  init_linear_(*this);
}

Tensor Vgg::forward(const Tensor& x) {
  const Tensor h = features(x);
  if (options.head == Stem::cifar) return classifier(global_avg_pool2d(h));
  return classifier(flatten(average_to_7x7(h)));
}

}  // namespace adret
