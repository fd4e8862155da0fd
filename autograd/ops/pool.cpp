// Max and average pooling.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/extreme.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/window.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

// -- checks and shapes ---------------------------------------------------------------

// How many windows lie along one direction; -1 when not even one fits.
int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                     bool ceil_mode) {
  const int64_t room = size + 2 * padding - kernel;
  if (room < 0) return -1;
  const int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  // Rounded up, the last window may start in the trailing padding: it would hold no element.
  return (count - 1) * stride >= size + padding ? count - 1 : count;
}

template <class Size>
struct Pooling {
  Size kernel, stride, padding, output;
  bool count_include_pad;
};

// Windows with nothing but padding have no largest element and no mean.
template <class Size>
void check_places(const char* function, const Tensor& x) {
  check::rank(function, {"x", x}, int(along(Size()).size()) + 2,
              std::is_same_v<Size, Size2> ? "(N, H, W, C)" : "(N, D, H, W, C)");
  if (!at_least(1, inner_sizes<Size>(x.shape()))) {
    check::refuse(function, fmt::format("x {} has no places to pool", to_string(x.shape())));
  }
}

template <class Size>
Pooling<Size> pooling(const char* function, const Tensor& x, Size kernel,
                      const PoolOptions<Size>& options) {
  check::floating(function, {"x", x});
  check_places<Size>(function, x);
  const Size padding = options.padding, input = inner_sizes<Size>(x.shape());
  const Size stride = options.stride == Size(0) ? kernel : options.stride;
  if (!at_least(1, kernel) || !at_least(1, stride)) {
    check::refuse(function, fmt::format("kernel {}, stride {}; wanted at least {}",
                                        to_string(kernel), to_string(stride), to_string(Size(1))));
  }
  check_steps<Size>(function, {{"kernel", kernel}, {"stride", stride}, {"padding", padding}});
  const Size left = each_direction([](int64_t k, int64_t p) { return k - 2 * p; }, kernel, padding);
  if (!at_least(0, padding) || !at_least(0, left)) {
    check::refuse(function, fmt::format("padding {} with kernel {}; wanted 0 to half the kernel",
                                        to_string(padding), to_string(kernel)));
  }
  const auto count = [&](int64_t size, int64_t k, int64_t s, int64_t p) {
    return window_count(size, k, s, p, options.ceil_mode);
  };
  const Size output = each_direction(count, input, kernel, stride, padding);
  if (!at_least(1, output)) {
    check::refuse(function, fmt::format("kernel {} is larger than input {} with padding {}",
                                        to_string(kernel), to_string(input), to_string(padding)));
  }
  return {kernel, stride, padding, output, options.count_include_pad};
}

Pool2dParams params_of(const Pooling<Size2>& p) {
  return {.kernel = p.kernel,
          .stride = p.stride,
          .padding = p.padding,
          .count_include_pad = p.count_include_pad};
}

// x (N, H, W, C), and (N, L, C) as images of one row.
using PoolImages = Tensor (*)(const Tensor& x, const Pooling<Size2>& pooling);

Tensor pool_sequences(const char* function, const Tensor& x, int64_t kernel,
                      const Pool1dOptions& options, PoolImages pool) {
  check::rank(function, {"x", x}, 3, "(N, L, C)");
  const Tensor rows = x.reshape({x.size(0), 1, x.size(1), x.size(2)});
  const Pool2dOptions of_rows{.stride = {1, options.stride == 0 ? kernel : options.stride},
                              .padding = {0, options.padding},
                              .ceil_mode = options.ceil_mode,
                              .count_include_pad = options.count_include_pad};
  const Tensor y = pool(rows, pooling(function, rows, Size2(1, kernel), of_rows));
  return y.reshape({y.size(0), y.size(2), y.size(3)});
}

// Note [Pooling of volumes]
// The largest element of a box is that of the largest ones of its slices; the first slice that has
// it, and the first place there, are the first in row-major order. A mean is that of the slices'
// means, since windows are clipped in each direction by itself and so all slices of a box have the
// same divisor. So images of H x W are pooled, and then images of D x 1 with H W C channels.
Tensor pool_volumes(const char* function, const Tensor& x, Size3 kernel,
                    const Pool3dOptions& options, PoolImages pool) {
  const Pooling<Size3> all = pooling(function, x, kernel, options);
  const int64_t n = x.size(0), d = x.size(1), c = x.size(4);
  const auto pooled = [&](const Tensor& images, const Pooling<Size2>& part) {
    const bool is_identity =
        part.kernel == Size2(1) && part.stride == Size2(1) && part.padding == Size2(0);
    return is_identity ? images : pool(images, part);
  };
  const Tensor planes = pooled(x.reshape({n * d, x.size(2), x.size(3), c}),
                               {.kernel = all.kernel.plane(),
                                .stride = all.stride.plane(),
                                .padding = all.padding.plane(),
                                .output = all.output.plane(),
                                .count_include_pad = all.count_include_pad});
  const Tensor y = pooled(planes.reshape({n, d, 1, all.output.plane().area() * c}),
                          {.kernel = {all.kernel.d, 1},
                           .stride = {all.stride.d, 1},
                           .padding = {all.padding.d, 0},
                           .output = {all.output.d, 1},
                           .count_include_pad = all.count_include_pad});
  return y.reshape(around(n, all.output, c));
}

// -- max -----------------------------------------------------------------------------

Tensor scatter(const Tensor& dy, const Tensor& position, const Pool2dParams& pool,
               const Tensor& dx);

// Of the pooling and of gathering: both pick elements of x by `position`.
struct MaxPool2dNode final : Node {
  MaxPool2dNode(const Tensor& position, const Pool2dParams& pool)
      : position(position), pool(pool) {}
  const char* name() const override { return "max_pool2d"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {scatter(grads[0], position.unpack(*this), pool, grad_buffer(0))};
  }
  SavedTensor position;
  Pool2dParams pool;
};

// Of scattering: its adjoint is gathering.
struct ScatterBackward final : Node {
  ScatterBackward(const Tensor& position, const Pool2dParams& pool)
      : position(position), pool(pool) {}
  const char* name() const override { return "max_pool2d_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& places = position.unpack(*this);
    Tensor y = grad_buffer(0);
    run(MaxPool2dGather{.x = grads[0], .position = places, .y = y, .pool = pool});
    record<MaxPool2dNode>({y}, {grads[0]}, places, pool);
    return {y};
  }
  SavedTensor position;
  Pool2dParams pool;
};

Tensor scatter(const Tensor& dy, const Tensor& position, const Pool2dParams& pool,
               const Tensor& dx) {
  run(MaxPool2dBackward{.dy = dy, .position = position, .dx = dx, .pool = pool});
  record<ScatterBackward>({dx}, {dy}, position, pool);
  return dx;
}

Tensor max_of_windows(const Tensor& x, const Pooling<Size2>& pooling) {
  const Pool2dParams pool = params_of(pooling);
  Tensor y = empty_like(x, around(x.size(0), pooling.output, x.size(3)));
  Tensor position;  // only for a backward
  if (grad_enabled() && x.requires_grad()) {
    const DType dtype = pool.kernel.area() <= 256 ? DType::u8 : DType::i32;
    position = Tensor::empty(y.shape(), {.dtype = dtype, .device = x.device()});
  }
  run(MaxPool2dForward{.x = x, .y = y, .position = position, .pool = pool});
  record<MaxPool2dNode>({y}, {x}, position, pool);
  return y;
}

// -- average -------------------------------------------------------------------------

Tensor average(const Tensor& x, const Pool2dParams& pool, const Tensor& y);

// Of spreading dy over the windows; the adjoint of averaging, as that is its.
struct SpreadBackward final : Node {
  explicit SpreadBackward(const Pool2dParams& pool) : pool(pool) {}
  const char* name() const override { return "avg_pool2d_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {average(grads[0], pool, grad_buffer(0))};
  }
  Pool2dParams pool;
};

struct AvgPool2dNode final : Node {
  explicit AvgPool2dNode(const Pool2dParams& pool) : pool(pool) {}
  const char* name() const override { return "avg_pool2d"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor dx = grad_buffer(0);
    run(AvgPool2dBackward{.dy = grads[0], .dx = dx, .pool = pool});
    record<SpreadBackward>({dx}, {grads[0]}, pool);
    return {dx};
  }
  Pool2dParams pool;
};

Tensor average(const Tensor& x, const Pool2dParams& pool, const Tensor& y) {
  run(AvgPool2dForward{.x = x, .y = y, .pool = pool});
  record<AvgPool2dNode>({y}, {x}, pool);
  return y;
}

Tensor mean_of_windows(const Tensor& x, const Pooling<Size2>& pooling) {
  return average(x, params_of(pooling),
                 empty_like(x, around(x.size(0), pooling.output, x.size(3))));
}

}  // namespace

// -- the functions -------------------------------------------------------------------

Tensor max_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options) {
  const FunctionScope scope("max_pool1d");
  return pool_sequences("max_pool1d", x, kernel, options, max_of_windows);
}

Tensor max_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options) {
  const FunctionScope scope("max_pool2d");
  return max_of_windows(x, pooling("max_pool2d", x, kernel, options));
}

Tensor max_pool3d(const Tensor& x, Size3 kernel, const Pool3dOptions& options) {
  const FunctionScope scope("max_pool3d");
  return pool_volumes("max_pool3d", x, kernel, options, max_of_windows);
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options) {
  const FunctionScope scope("avg_pool1d");
  return pool_sequences("avg_pool1d", x, kernel, options, mean_of_windows);
}

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options) {
  const FunctionScope scope("avg_pool2d");
  return mean_of_windows(x, pooling("avg_pool2d", x, kernel, options));
}

Tensor avg_pool3d(const Tensor& x, Size3 kernel, const Pool3dOptions& options) {
  const FunctionScope scope("avg_pool3d");
  return pool_volumes("avg_pool3d", x, kernel, options, mean_of_windows);
}

Tensor global_avg_pool2d(const Tensor& x) {
  const FunctionScope scope("global_avg_pool2d");
  check_places<Size2>("global_avg_pool2d", x);
  return mean(x, {.dims = {1, 2}});
}

Tensor global_max_pool2d(const Tensor& x) {
  const FunctionScope scope("global_max_pool2d");
  check::floating("global_max_pool2d", {"x", x});
  check_places<Size2>("global_max_pool2d", x);
  const Tensor places = x.reshape({x.size(0), x.size(1) * x.size(2), x.size(3)});
  return max_with_indices(places, {.dim = 1}).values;
}

}  // namespace adret
