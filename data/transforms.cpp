// Normalisation of images.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/data/transforms.h>
#include <fmt/core.h>

#include <array>
#include <cmath>
#include <utility>

namespace adret {
namespace {

void check_images(const Tensor& images) {
  if (images.rank() != 4 || images.dtype() != DType::u8) {
    throw ShapeError("[normalize] wants images (N, H, W, C) u8, got " +
                     to_string(TensorView(images)));
  }
}

}  // namespace

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : mean_(std::move(mean)), std_(std::move(std)) {
  if (mean_.empty() || mean_.size() != std_.size()) {
    throw Error(fmt::format("[normalize] wants a mean and a std for each channel, got {} and {}",
                            mean_.size(), std_.size()));
  }
  for (const double value : std_) {
    if (!(value > 0)) throw Error(fmt::format("[normalize] wants std above 0, got {}", value));
  }
}

Normalize Normalize::fit(const Tensor& images) {
  check_images(images);
  const auto pixels = images.span<uint8_t>();
  const auto channels = size_t(images.size(3));
  if (pixels.empty()) {
    throw ShapeError("[normalize] no pixels to take the mean of: " + to_string(TensorView(images)));
  }
  std::vector<std::array<int64_t, 256>> counts(channels);
  for (size_t i = 0; i < pixels.size(); i += channels) {
    for (size_t c = 0; c < channels; ++c) ++counts[c][pixels[i + c]];
  }
  std::vector<double> means, stds;
  for (const auto& count : counts) {
    double n = 0, sum = 0, squares = 0;
    for (size_t value = 0; value < 256; ++value) {
      n += double(count[value]);
      sum += double(count[value]) * double(value);
      squares += double(count[value]) * double(value * value);
    }
    const double variance = squares / n - (sum / n) * (sum / n);
    means.push_back(sum / n / 255);
    stds.push_back(variance > 0 ? std::sqrt(variance) / 255 : 1);
  }
  return Normalize(std::move(means), std::move(stds));
}

Tensor Normalize::operator()(const Tensor& images) const {
  check_images(images);
  if (mean_.size() != 1 && images.size(3) != int64_t(mean_.size())) {
    throw ShapeError(fmt::format("[normalize] has statistics of {} channels, got images {}",
                                 mean_.size(), to_string(images.shape())));
  }
  Tensor y = Tensor::empty(images.shape(), {.device = images.device()});
  run(kernels::Cast{.x = images, .y = y});
  if (mean_.size() == 1) {
    run(kernels::Unary{.x = y, .y = y, .alpha = 1 / (255 * std_[0]), .beta = -mean_[0] / std_[0]});
    return y;
  }
  std::vector<float> scale, shift;
  for (size_t c = 0; c < mean_.size(); ++c) {
    scale.push_back(float(1 / (255 * std_[c])));
    shift.push_back(float(-mean_[c] / std_[c]));
  }
  const Shape per_channel = {int64_t(mean_.size())};
  const auto apply = [&](kernels::BinaryOp op, const std::vector<float>& values) {
    const Tensor b = Tensor::from(values, per_channel, images.device());
    run(kernels::Binary{.a = y, .b = b, .y = y, .op = op});
  };
  apply(kernels::BinaryOp::multiply, scale);
  apply(kernels::BinaryOp::add, shift);
  return y;
}

}  // namespace adret
