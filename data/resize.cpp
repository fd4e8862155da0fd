// The weights of resizing, and the calls of its kernel: along the rows, then along the columns.
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/data/image_limits.h>
#include <adret/data/resize.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace adret {
namespace {

constexpr int64_t longest = int64_t(1) << 20;

// As a batch.
Tensor batch_of(const char* function, const Tensor& images) {
  const bool is_one = images.rank() == 3;
  if ((is_one || images.rank() == 4) && images.dtype() == DType::u8 && images.size(-1) >= 1 &&
      images.size(-1) <= 4) {
    return is_one ? images.alias(images.shape().inserted(0, 1)) : images;
  }
  throw ShapeError(fmt::format(
      "[{}] wants images (N, H, W, C) or an image (H, W, C), u8 of 1 to 4 channels, got {} {}",
      function, to_string(images.shape()), name(images.dtype())));
}

Tensor like(const Tensor& result, const Tensor& images) {
  return images.rank() == 3 ? result.alias(result.shape().without(0)) : result;
}

// Rows of ResampleImages: a triangle as wide as a pixel of the coarser grid on either side, centred
// at each new pixel, cut off at the border and scaled to a sum of 1.
Tensor triangle_weights(int64_t from, int64_t to, Device device) {
  const double scale = double(from) / double(to), reach = std::max(1.0, scale);
  const auto most = int64_t(std::ceil(reach)) * 2 + 1;
  std::vector<int32_t> rows(size_t(to * (most + 2)));
  std::vector<double> weights;
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (double(i) + 0.5) * scale;
    const int64_t first = std::max<int64_t>(0, int64_t(centre - reach + 0.5)),
                  end = std::min(from, int64_t(centre + reach + 0.5));
    weights.clear();
    double sum = 0;
    for (int64_t at = first; at < end; ++at) {
      const double distance = std::abs((double(at) - centre + 0.5) * (1 / reach));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    int32_t* row = rows.data() + i * (most + 2);
    row[0] = int32_t(first);
    row[1] = int32_t(weights.size());
    for (size_t k = 0; k < weights.size(); ++k) {
      row[2 + k] = int32_t(weights[k] / sum * double(1 << 22) + 0.5);
    }
  }
  return Tensor::from(rows, {to, most + 2}, device);
}

Tensor resample(const Tensor& x, int dim, int64_t size) {
  if (x.size(dim) == size) return x;
  const Tensor weights = triangle_weights(x.size(dim), size, x.device());
  const Tensor y =
      Tensor::empty(x.shape().with(dim, size), {.dtype = DType::u8, .device = x.device()});
  run(kernels::ResampleImages{.x = x, .weights = weights, .y = y, .dim = dim});
  return y;
}

}  // namespace

Tensor resize(const Tensor& images, Size2 size) {
  const Tensor x = batch_of("resize", images);
  if (size.h < 1 || size.w < 1 || size.h > longest || size.w > longest) {
    throw Error(
        fmt::format("[resize] the size is {}, wanted sides of 1..{}", to_string(size), longest));
  }
  if (x.size(1) < 1 || x.size(2) < 1) {
    throw ShapeError("[resize] there are no pixels in images " + to_string(images.shape()));
  }
  return like(resample(resample(x, 2, size.w), 1, size.h), images);
}

Tensor resize_shorter_side(const Tensor& images, int64_t length) {
  const Tensor x = batch_of("resize_shorter_side", images);
  const int64_t h = x.size(1), w = x.size(2), shorter = std::min(h, w);
  if (shorter < 1) {
    throw ShapeError("[resize_shorter_side] there are no pixels in images " +
                     to_string(images.shape()));
  }
  return resize(images, {length * h / shorter, length * w / shorter});
}

Tensor center_crop(const Tensor& images, Size2 size) {
  const Tensor x = batch_of("center_crop", images);
  if (size.h < 1 || size.w < 1 || size.h > x.size(1) || size.w > x.size(2)) {
    throw ShapeError(fmt::format("[center_crop] a crop of {} does not fit in images {}",
                                 to_string(size), to_string(images.shape())));
  }
  if (x.size(1) > longest || x.size(2) > longest) {
    throw ShapeError(fmt::format("[center_crop] wants images of sides up to {}, got {}", longest,
                                 to_string(images.shape())));
  }
  check_elements("center_crop", size, x.size(3));
  const Tensor y = Tensor::empty({x.size(0), size.h, size.w, x.size(3)},
                                 {.dtype = DType::u8, .device = x.device()});
  run(kernels::AugmentImages{.x = x, .y = y});
  return like(y, images);
}

}  // namespace adret
