// Dropout.
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/dropout.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

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

}  // namespace adret
