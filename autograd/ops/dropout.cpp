// Dropout.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <cmath>

namespace adret {
namespace {

using namespace kernels;

// The gradient is the same mask applied to dy, so this node differentiates itself too.
struct DropoutNode final : Node {
  DropoutNode(const Tensor& mask, double p) : mask(mask), p(p) {}
  const char* name() const override { return "dropout"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& kept = mask.unpack(*this);
    const Tensor dx = grad_buffer(0);
    run(DropoutBackward{.dy = grads[0], .mask = kept, .dx = dx, .p = p});
    record<DropoutNode>({dx}, {grads[0]}, kept, p);
    return {dx};
  }
  SavedTensor mask;
  double p;
};

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  const FunctionScope scope("dropout");
  check::floating("dropout", {"x", x});
  if (!(p >= 0 && p <= 1)) {
    check::refuse("dropout", fmt::format("p is {}, wanted a probability in 0..1", p));
  }
  if (!training || p == 0) return x;
  Tensor y = empty_like(x);
  const Tensor mask = Tensor::empty(x.shape(), {.dtype = DType::u8, .device = x.device()});
  run(DropoutForward{.x = x,
                     .step = random::step_word(x.device()),
                     .y = y,
                     .mask = mask,
                     .key = random::next(RandomStream::dropout),
                     .p = p});
  record<DropoutNode>({y}, {x}, mask, p);
  return y;
}

namespace {

void check_samples(const char* function, const Tensor& x) {
  check::floating(function, {"x", x});
  if (x.rank() < 1) check::refuse_shape(function, {"x", x}, "(N, ...)");
}

// What is kept, the same for all elements along the dimensions 1..last-1.
Tensor kept_alike(const Tensor& x, double p, int last) {
  Shape shape = x.shape();
  for (int dim = 1; dim < last; ++dim) shape = shape.with(dim, 1);
  const Tensor ones = Tensor::ones(shape, {.dtype = x.dtype(), .device = x.device()});
  return dropout(ones, p, true).to(DType::boolean);
}

// Selected, as infinity times 0 is NaN.
Tensor dropout_alike(const char* function, const Tensor& x, double p, bool training, int last) {
  check_samples(function, x);
  if (!training || p == 0) return dropout(x, p, training);
  const Tensor kept = kept_alike(x, p, last);
  return where(kept, p < 1 ? x * (1 / (1 - p)) : x, 0);
}

Tensor alpha_dropout_alike(const char* function, const Tensor& x, double p, bool training,
                           int last) {
  check_samples(function, x);
  if (!training || p == 0) return dropout(x, p, training);
  const Tensor kept = kept_alike(x, p, last);
  if (p == 1) return where(kept, x, 0);
  constexpr double lowest = -1.7580993408473766;  // of selu
  const double scale = 1 / std::sqrt((lowest * lowest * p + 1) * (1 - p));
  return where(kept, affine(x, scale, -lowest * scale * p), lowest * scale * (1 - p));
}

}  // namespace

Tensor dropout2d(const Tensor& x, double p, bool training) {
  const FunctionScope scope("dropout2d");
  return dropout_alike("dropout2d", x, p, training, x.rank() - 1);
}

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  const FunctionScope scope("alpha_dropout");
  return alpha_dropout_alike("alpha_dropout", x, p, training, 1);
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  const FunctionScope scope("feature_alpha_dropout");
  return alpha_dropout_alike("feature_alpha_dropout", x, p, training, x.rank() - 1);
}

Tensor drop_path(const Tensor& x, double p, bool training) {
  const FunctionScope scope("drop_path");
  return dropout_alike("drop_path", x, p, training, x.rank());
}

}  // namespace adret
