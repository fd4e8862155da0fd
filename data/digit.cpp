// The preparation of drawn digits.
#include <adret/core/error.h>
#include <adret/data/digit.h>
#include <adret/data/image_file.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adret {
namespace {

// Rows of gray values in 0..255.
struct GrayImage {
  int64_t height = 0, width = 0;
  std::vector<float> values;

  float& at(int64_t y, int64_t x) { return values[size_t(y * width + x)]; }
  float at(int64_t y, int64_t x) const { return values[size_t(y * width + x)]; }
};

GrayImage gray_over_white(const Tensor& rgba) {
  GrayImage gray{rgba.size(0), rgba.size(1), {}};
  const auto pixels = rgba.span<uint8_t>();
  for (size_t i = 0; i < pixels.size(); i += 4) {
    const float luma = 0.30f * pixels[i] + 0.59f * pixels[i + 1] + 0.11f * pixels[i + 2];
    const float alpha = float(pixels[i + 3]) / 255;
    gray.values.push_back(alpha * luma + (1 - alpha) * 255);
  }
  return gray;
}

float mean_of_border(const GrayImage& image) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t y = 0; y < image.height; ++y) {
    const bool inner_row = y > 0 && y + 1 < image.height;
    const int64_t step = inner_row ? std::max<int64_t>(1, image.width - 1) : 1;
    for (int64_t x = 0; x < image.width; x += step, ++count) sum += image.at(y, x);
  }
  return float(sum / double(count));
}

GrayImage pad_to_square(const GrayImage& image, float shade) {
  const int64_t side = std::max(image.height, image.width);
  GrayImage square{side, side, std::vector<float>(size_t(side * side), shade)};
  const int64_t top = (side - image.height) / 2, left = (side - image.width) / 2;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) square.at(top + y, left + x) = image.at(y, x);
  }
  return square;
}

// The mean over the area [y0, y1) x [x0, x1), edges counting by the part that is inside.
float area_mean(const GrayImage& image, double y0, double y1, double x0, double x1) {
  double sum = 0;
  for (auto y = int64_t(y0); double(y) < y1 && y < image.height; ++y) {
    const double rows = std::min(y1, double(y + 1)) - std::max(y0, double(y));
    for (auto x = int64_t(x0); double(x) < x1 && x < image.width; ++x) {
      const double columns = std::min(x1, double(x + 1)) - std::max(x0, double(x));
      sum += rows * columns * image.at(y, x);
    }
  }
  return float(sum / ((y1 - y0) * (x1 - x0)));
}

}  // namespace

Tensor load_digit(const std::filesystem::path& path, const DigitOptions& options) {
  if (options.size < 1) {
    throw Error(fmt::format("[load_digit] wants a size of 1 or more, got {}", options.size));
  }
  const GrayImage image = gray_over_white(load_image(path, {.channels = 4}));
  const float border = mean_of_border(image);
  const GrayImage square = pad_to_square(image, border);
  const bool invert =
      options.invert == Invert::always || (options.invert == Invert::automatic && border > 127.5f);
  const double scale = double(square.width) / double(options.size);
  std::vector<uint8_t> digit;
  for (int64_t y = 0; y < options.size; ++y) {
    for (int64_t x = 0; x < options.size; ++x) {
      const float mean = area_mean(square, double(y) * scale, double(y + 1) * scale,
                                   double(x) * scale, double(x + 1) * scale);
      const auto value = uint8_t(std::lround(std::clamp(mean, 0.0f, 255.0f)));
      digit.push_back(invert ? uint8_t(255 - value) : value);
    }
  }
  return Tensor::from(digit, {options.size, options.size, 1});
}

}  // namespace adret
