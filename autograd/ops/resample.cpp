// Sequences, images and volumes in other sizes.
#include <adret/autograd/node.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/resample.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/window.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret {
namespace {

using namespace kernels;

Tensor resampled(const Tensor& x, const ResampleParams& params, const Tensor& y);

// Of the transpose; the other's adjoint, as that is its.
struct TransposeBackward final : Node {
  explicit TransposeBackward(const ResampleParams& params) : params(params) {}
  const char* name() const override { return "resample_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {resampled(grads[0], params, grad_buffer(0))};
  }
  ResampleParams params;
};

struct ResampleNode final : Node {
  explicit ResampleNode(const ResampleParams& params) : params(params) {}
  const char* name() const override { return "resample"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor dx = grad_buffer(0);
    run(ResampleBackward{.dy = grads[0], .dx = dx, .resample = params});
    record<TransposeBackward>({dx}, {grads[0]}, params);
    return {dx};
  }
  ResampleParams params;
};

Tensor resampled(const Tensor& x, const ResampleParams& params, const Tensor& y) {
  run(ResampleForward{.x = x, .y = y, .resample = params});
  record<ResampleNode>({y}, {x}, params);
  return y;
}

bool has_size(const Tensor& x, Size2 size) { return inner_sizes<Size2>(x.shape()) == size; }

// x (N, H, W, C) itself where the size stays.
Tensor resampled(const Tensor& x, Size2 size, const ResampleParams& params) {
  if (has_size(x, size)) return x.reshape(x.shape());
  return resampled(x, params, empty_like(x, around(x.size(0), size, x.size(3))));
}

// Areas that share no pixel are the windows of a pooling.
Tensor mean_of_areas(const Tensor& x, Size2 size) {
  const Size2 area(x.size(1) / size.h, x.size(2) / size.w);
  const bool share_none = x.size(1) % size.h == 0 && x.size(2) % size.w == 0;
  if (share_none && !has_size(x, size)) return avg_pool2d(x, area);
  return resampled(x, size, {.mode = Resampling::area});
}

ResampleParams params_of(const char* function, const InterpolateOptions& options) {
  const bool nearest = options.mode == Interpolation::nearest;
  if (nearest && options.align_corners) {
    check::refuse(function, "align_corners is of linear interpolation alone");
  }
  return {.mode = nearest ? Resampling::nearest : Resampling::bilinear,
          .align_corners = options.align_corners};
}

}  // namespace

Tensor interpolate(const Tensor& x, Size2 size, const InterpolateOptions& options) {
  const FunctionScope scope("interpolate");
  check::rank("interpolate", {"x", x}, 4, "(N, H, W, C)");
  check_resizable("interpolate", x, size);
  return resampled(x, size, params_of("interpolate", options));
}

Tensor interpolate1d(const Tensor& x, int64_t size, const InterpolateOptions& options) {
  const FunctionScope scope("interpolate1d");
  check::rank("interpolate1d", {"x", x}, 3, "(N, L, C)");
  const Tensor rows = x.reshape({x.size(0), 1, x.size(1), x.size(2)});
  check_resizable("interpolate1d", rows, Size2(1, size));
  const Tensor y = resampled(rows, {1, size}, params_of("interpolate1d", options));
  return y.reshape({x.size(0), size, x.size(2)});
}

Tensor interpolate3d(const Tensor& x, Size3 size, const InterpolateOptions& options) {
  const FunctionScope scope("interpolate3d");
  check::rank("interpolate3d", {"x", x}, 5, "(N, D, H, W, C)");
  check_resizable("interpolate3d", x, size);
  const ResampleParams params = params_of("interpolate3d", options);
  const int64_t n = x.size(0), c = x.size(4);
  const Size2 before(x.size(2), x.size(3)), after = size.plane();
  // Columns through the slices, whose pixels count as channels.
  const auto columns = [&](const Tensor& slices, Size2 pixels) {
    const int64_t depth = x.size(1), channels = pixels.area() * c;
    return resampled(slices.reshape({n, depth, 1, channels}), {size.d, 1}, params);
  };
  const auto planes = [&](const Tensor& slices, int64_t depth) {
    return resampled(slices.reshape(around(n * depth, before, c)), after, params);
  };
  // What is between the two is to be small.
  const bool columns_first =
      double(size.d) * double(before.area()) < double(x.size(1)) * double(after.area());
  const Tensor y =
      columns_first ? planes(columns(x, before), size.d) : columns(planes(x, x.size(1)), after);
  return y.reshape(around(n, size, c));
}

Tensor adaptive_avg_pool1d(const Tensor& x, int64_t size) {
  const FunctionScope scope("adaptive_avg_pool1d");
  check::rank("adaptive_avg_pool1d", {"x", x}, 3, "(N, L, C)");
  const Tensor rows = x.reshape({x.size(0), 1, x.size(1), x.size(2)});
  check_resizable("adaptive_avg_pool1d", rows, Size2(1, size));
  return mean_of_areas(rows, {1, size}).reshape({x.size(0), size, x.size(2)});
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2 size) {
  const FunctionScope scope("adaptive_avg_pool2d");
  check::rank("adaptive_avg_pool2d", {"x", x}, 4, "(N, H, W, C)");
  check_resizable("adaptive_avg_pool2d", x, size);
  return mean_of_areas(x, size);
}

Tensor adaptive_avg_pool3d(const Tensor& x, Size3 size) {
  const FunctionScope scope("adaptive_avg_pool3d");
  check::rank("adaptive_avg_pool3d", {"x", x}, 5, "(N, D, H, W, C)");
  check_resizable("adaptive_avg_pool3d", x, size);
  // All slices of an area have the same divisor: the mean is that of their means.
  const int64_t n = x.size(0), d = x.size(1), c = x.size(4);
  const Tensor planes = mean_of_areas(x.reshape({n * d, x.size(2), x.size(3), c}), size.plane());
  const Tensor columns = planes.reshape({n, d, 1, size.plane().area() * c});
  return mean_of_areas(columns, {size.d, 1}).reshape(around(n, size, c));
}

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  const FunctionScope scope("pixel_shuffle");
  check::rank("pixel_shuffle", {"x", x}, 4, "(N, H, W, C)");
  check_steps<Size2>("pixel_shuffle", {{"factor", factor}});  // so that its square is in 64 bits
  if (factor < 1 || x.size(3) % (factor * factor) != 0) {
    check::refuse("pixel_shuffle", fmt::format("{} channels cannot be spread over squares of {}x{}",
                                               x.size(3), factor, factor));
  }
  const int64_t n = x.size(0), h = x.size(1), w = x.size(2), c = x.size(3) / (factor * factor);
  if (std::max(h, w) > Shape::max_numel / factor) {
    check::refuse("pixel_shuffle",
                  fmt::format("x {} has no room for factor {}", to_string(x.shape()), factor));
  }
  return permute(x.reshape({n, h, w, c, factor, factor}), {0, 1, 4, 2, 5, 3})
      .reshape({n, h * factor, w * factor, c});
}

Tensor pixel_unshuffle(const Tensor& x, int64_t factor) {
  const FunctionScope scope("pixel_unshuffle");
  check::rank("pixel_unshuffle", {"x", x}, 4, "(N, H, W, C)");
  check_steps<Size2>("pixel_unshuffle", {{"factor", factor}});
  if (factor < 1 || x.size(1) % factor != 0 || x.size(2) % factor != 0) {
    check::refuse("pixel_unshuffle", fmt::format("sides {}x{} are no multiples of the factor {}",
                                                 x.size(1), x.size(2), factor));
  }
  const int64_t n = x.size(0), h = x.size(1) / factor, w = x.size(2) / factor, c = x.size(3);
  return permute(x.reshape({n, h, factor, w, factor, c}), {0, 1, 3, 5, 2, 4})
      .reshape({n, h, w, c * factor * factor});
}

}  // namespace adret
