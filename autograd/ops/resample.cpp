// Images in other sizes.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/index.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/resample.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/compute_mode.h>
#include <fmt/core.h>

namespace adret {
namespace {

// From `from` pixels to `to` in one direction.
struct Sizes {
  int64_t from, to;
};

// numerator / denominator rounded down, of whole numbers in f64. Half a unit more keeps the
// quotient away from the integers, which its rounding could miss.
Tensor whole_quotient(const Tensor& numerator, int64_t denominator) {
  return floor((numerator + 0.5) / double(denominator));
}

// The pixel that each of the result's is.
Tensor nearest(const Sizes& sizes, Device device) {
  const Tensor to = arange(0, double(sizes.to), 1, {.dtype = DType::f64, .device = device});
  return whole_quotient(to * double(sizes.from), sizes.to).to(DType::i64);
}

// The other ways have a matrix (to, from) of the weights that a result's pixel gives to x's. They
// are made of kernels, so that a recorded step has them as constants.
struct Places {
  Tensor to, from;  // (to, 1) and (1, from): the numbers of the pixels
};
Places places(const Sizes& sizes, const TensorOptions& options) {
  return {arange(0, double(sizes.to), 1, options).reshape({sizes.to, 1}),
          arange(0, double(sizes.from), 1, options).reshape({1, sizes.from})};
}

// One minus the distance in pixels, where that is positive; beyond the image the last pixel counts.
Tensor bilinear(const Sizes& sizes, const TensorOptions& options, bool align_corners) {
  const auto [to, from] = places(sizes, options);
  const double most = double(sizes.from - 1);
  const Tensor source =
      align_corners ? to * (sizes.to > 1 ? most / double(sizes.to - 1) : 0)
                    : clamp((to + 0.5) * (double(sizes.from) / double(sizes.to)) - 0.5, 0, most);
  return relu(1 - abs(source - from));
}

Tensor mean_of_areas(const Sizes& sizes, const TensorOptions& options) {
  const auto [to, from] = places(sizes, {.dtype = DType::f64, .device = options.device});
  const double size = double(sizes.from), rounding_up = double(sizes.to - 1);
  const Tensor begin = whole_quotient(to * size, sizes.to);
  const Tensor end = whole_quotient(affine(to, size, size + rounding_up), sizes.to);
  const Tensor inside = logical_and(greater_equal(from, begin), less(from, end)).to(DType::f64);
  return (inside / (end - begin)).to(options.dtype);
}

void check_sizes(const char* function, const Tensor& x, Size2 size) {
  check::floating(function, {"x", x});
  check::rank(function, {"x", x}, 4, "(N, H, W, C)");
  if (x.size(1) < 1 || x.size(2) < 1 || size.h < 1 || size.w < 1) {
    check::refuse(function, fmt::format("images of {}x{} cannot become {}x{}; wanted at least 1x1",
                                        x.size(1), x.size(2), size.h, size.w));
  }
}

// matrix_h x matrix_w^T for each channel; matrix_of(sizes, options) gives them.
template <class MatrixOf>
Tensor resampled(const Tensor& x, Size2 size, const MatrixOf& matrix_of) {
  ComputeMode mode = compute_mode();
  mode.math = MathMode::exact;
  const ComputeModeScope exact(mode);
  const int64_t n = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3);
  const TensorOptions wide{.dtype = wide_dtype(x), .device = x.device()};
  Tensor y = x;
  if (size.h != h) {
    const Tensor matrix = matrix_of(Sizes{h, size.h}, wide).to(x.dtype());
    y = matmul(broadcast_to(matrix, {n, size.h, h}), y.reshape({n, h, w * c}));
  }
  if (size.w != w) {
    const Tensor matrix = matrix_of(Sizes{w, size.w}, wide).to(x.dtype());
    y = matmul(broadcast_to(matrix, {n * size.h, size.w, w}), y.reshape({n * size.h, w, c}));
  }
  return y.reshape({n, size.h, size.w, c});
}

}  // namespace

Tensor interpolate(const Tensor& x, Size2 size, const InterpolateOptions& options) {
  const FunctionScope scope("interpolate");
  check_sizes("interpolate", x, size);
  if (options.mode == Interpolation::nearest) {
    if (options.align_corners) check::refuse("interpolate", "align_corners is of bilinear alone");
    const Tensor rows = nearest({x.size(1), size.h}, x.device());
    const Tensor columns = nearest({x.size(2), size.w}, x.device());
    return index_select(index_select(x, 1, rows), 2, columns);
  }
  return resampled(x, size, [&](const Sizes& sizes, const TensorOptions& wide) {
    return bilinear(sizes, wide, options.align_corners);
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2 size) {
  const FunctionScope scope("adaptive_avg_pool2d");
  check_sizes("adaptive_avg_pool2d", x, size);
  return resampled(x, size, mean_of_areas);
}

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  const FunctionScope scope("pixel_shuffle");
  check::rank("pixel_shuffle", {"x", x}, 4, "(N, H, W, C)");
  if (factor < 1 || x.size(3) % (factor * factor) != 0) {
    check::refuse("pixel_shuffle", fmt::format("{} channels cannot be spread over squares of {}x{}",
                                               x.size(3), factor, factor));
  }
  const int64_t n = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3) / (factor * factor);
  return permute(x.reshape({n, h, w, c, factor, factor}), {0, 1, 4, 2, 5, 3})
      .reshape({n, h * factor, w * factor, c});
}

}  // namespace adret
