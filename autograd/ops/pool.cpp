// Max and average pooling.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

// -- checks and shapes ---------------------------------------------------------------

// Sizes along one dimension.
struct Axis {
  int64_t input, kernel, stride, padding;

  // -1 when not even one window fits.
  int64_t output(bool ceil_mode) const {
    const int64_t room = input + 2 * padding - kernel;
    if (room < 0) return -1;
    const int64_t count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    // Rounded up, the last window may start in the trailing padding: it would hold no element.
    return (count - 1) * stride >= input + padding ? count - 1 : count;
  }
};

Pool2dParams complete(Size2 kernel, const Pool2dOptions& options) {
  return {.kernel = kernel,
          .stride = options.stride == Size2(0) ? kernel : options.stride,
          .padding = options.padding,
          .count_include_pad = options.count_include_pad};
}

// Windows with nothing but padding have no largest element and no mean.
void check_pixels(const char* function, const Tensor& x) {
  if (x.size(1) * x.size(2) == 0) {
    check::refuse(function, fmt::format("the images of x {} have no pixels", to_string(x.shape())));
  }
}

Shape infer(const char* function, const Tensor& x, const Pool2dParams& p, bool ceil_mode) {
  check::floating(function, {"x", x});
  check::rank(function, {"x", x}, 4, "(N, H, W, C)");
  check_pixels(function, x);
  const auto [kernel, stride, padding, count_include_pad] = p;
  if (kernel.h < 1 || kernel.w < 1 || stride.h < 1 || stride.w < 1) {
    check::refuse(function, fmt::format("kernel {}, stride {}; wanted at least 1x1",
                                        to_string(kernel), to_string(stride)));
  }
  if (padding.h < 0 || padding.w < 0 || 2 * padding.h > kernel.h || 2 * padding.w > kernel.w) {
    check::refuse(function, fmt::format("padding {} with kernel {}; wanted 0 to half the kernel",
                                        to_string(padding), to_string(kernel)));
  }
  const int64_t height = Axis{x.size(1), kernel.h, stride.h, padding.h}.output(ceil_mode);
  const int64_t width = Axis{x.size(2), kernel.w, stride.w, padding.w}.output(ceil_mode);
  if (height < 1 || width < 1) {
    check::refuse(function,
                  fmt::format("kernel {} is larger than input {}x{} with padding {}",
                              to_string(kernel), x.size(1), x.size(2), to_string(padding)));
  }
  return {x.size(0), height, width, x.size(3)};
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

}  // namespace

Tensor max_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options) {
  const FunctionScope scope("max_pool2d");
  const Pool2dParams pool = complete(kernel, options);
  Tensor y = empty_like(x, infer("max_pool2d", x, pool, options.ceil_mode));
  Tensor position;  // only for a backward
  if (grad_enabled() && x.requires_grad()) {
    const DType dtype = kernel.area() <= 256 ? DType::u8 : DType::i32;
    position = Tensor::empty(y.shape(), {.dtype = dtype, .device = x.device()});
  }
  run(MaxPool2dForward{.x = x, .y = y, .position = position, .pool = pool});
  record<MaxPool2dNode>({y}, {x}, position, pool);
  return y;
}

// -- average -------------------------------------------------------------------------

namespace {

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

}  // namespace

Tensor avg_pool2d(const Tensor& x, Size2 kernel, const Pool2dOptions& options) {
  const FunctionScope scope("avg_pool2d");
  const Pool2dParams pool = complete(kernel, options);
  return average(x, pool, empty_like(x, infer("avg_pool2d", x, pool, options.ceil_mode)));
}

Tensor global_avg_pool2d(const Tensor& x) {
  const FunctionScope scope("global_avg_pool2d");
  check::rank("global_avg_pool2d", {"x", x}, 4, "(N, H, W, C)");
  check_pixels("global_avg_pool2d", x);
  return mean(x, {.dims = {1, 2}});
}

}  // namespace adret
