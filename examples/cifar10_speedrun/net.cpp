// Its layers and what they start with.
#include "net.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace speedrun {
namespace {

// The first filters pass their channel on (Zagoruyko and Komodakis 2017), the rest start as usual.
Conv2d identity_conv(int64_t in_channels, int64_t channels) {
  Conv2d conv(in_channels, channels, {.kernel = 3, .padding = 1, .bias = false});
  std::vector<float> weight = conv.weight.value.to_vector();
  const int64_t size = 9 * in_channels, centre = 4 * in_channels;
  for (int64_t i = 0; i < std::min(in_channels, channels); ++i) {
    std::fill_n(weight.begin() + i * size, size, 0.f);
    weight[size_t(i * size + centre + i)] = 1;
  }
  const NoGrad off;
  copy_(conv.weight, Tensor::from(weight, conv.weight.value.shape()));
  return conv;
}

// Its scale stays 1; its statistics follow quickly, as there are few steps.
BatchNorm2d quick_norm(int64_t channels) {
  BatchNorm2d norm(channels, {.momentum = 0.4, .epsilon = 1e-12});
  norm.weight.set_requires_grad(false);
  return norm;
}

// All patches of images (N, H, W, C) as rows (N * OH * OW, size * size * C).
Tensor patches(const Tensor& images, int64_t size) {
  const int64_t h = images.size(1) - size + 1, w = images.size(2) - size + 1;
  std::vector<Tensor> parts;
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      parts.push_back(slice(slice(images, 1, y, y + h), 2, x, x + w));
    }
  }
  return concatenate(parts, 3).reshape({-1, size * size * images.size(3)});
}

}  // namespace

Block::Block(int64_t in_channels, int64_t channels)
    : conv1(add("conv1", identity_conv(in_channels, channels))),
      norm1(add("norm1", quick_norm(channels))),
      conv2(add("conv2", identity_conv(channels, channels))),
      norm2(add("norm2", quick_norm(channels))) {}

Tensor Block::forward(const Tensor& x) {
  const Tensor h = gelu(norm1(max_pool2d(conv1(x), 2)));
  return gelu(norm2(conv2(h)));
}

Net::Net() {
  whitening.weight.set_requires_grad(false);
  std::vector<float> weight = head.weight.value.to_vector();
  double squares = 0;
  for (const float w : weight) squares += double(w) * double(w);
  const double std = std::sqrt(squares / double(weight.size()));
  const NoGrad off;
  copy_(head.weight, affine(head.weight, 1 / std, 0));
}

Tensor Net::forward(const Tensor& x) {
  Tensor h = gelu(whitening(x));
  h = max_pool2d(block3(block2(block1(h))), 3);
  return head(flatten(h)) * (1.0 / 256);
}

void Net::whiten(const Tensor& images) {
  constexpr double epsilon = 5e-4;
  const NoGrad off;
  const Tensor rows = patches(images, patch);
  const Tensor covariance = matmul(rows, rows, {.transpose_a = true}) * (1 / double(rows.size(0)));
  const std::vector<float> values = covariance.to_vector();
  using Matrix = Eigen::Matrix<double, patch_size, patch_size, Eigen::RowMajor>;
  const Matrix symmetric =
      Eigen::Map<const Eigen::Matrix<float, patch_size, patch_size, Eigen::RowMajor>>(values.data())
          .cast<double>();
  const Eigen::SelfAdjointEigenSolver<Matrix> axes(symmetric);
  std::vector<float> filters(size_t(2 * patch_size * patch_size));
  for (int64_t i = 0; i < patch_size; ++i) {
    const double scale = 1 / std::sqrt(axes.eigenvalues()[i] + epsilon);
    for (int64_t k = 0; k < patch_size; ++k) {
      const auto value = float(axes.eigenvectors()(k, i) * scale);
      filters[size_t(i * patch_size + k)] = value;
      filters[size_t((patch_size + i) * patch_size + k)] = -value;
    }
  }
  const Tensor& weight = whitening.weight;
  copy_(weight, Tensor::from(filters, weight.shape()).to(weight.dtype()).to(weight.device()));
}

std::vector<std::shared_ptr<Parameter>> Net::filters() const {
  std::vector<std::shared_ptr<Parameter>> list;
  for (const Block* block : {&block1, &block2, &block3}) {
    for (Conv2d* conv : {&block->conv1, &block->conv2}) {
      list.push_back(conv->weight.shared_from_this());
    }
  }
  return list;
}

std::vector<std::shared_ptr<Parameter>> Net::norm_biases() const {
  std::vector<std::shared_ptr<Parameter>> list;
  for (const Block* block : {&block1, &block2, &block3}) {
    for (BatchNorm2d* norm : {&block->norm1, &block->norm2}) {
      list.push_back(norm->bias.shared_from_this());
    }
  }
  return list;
}

}  // namespace speedrun
