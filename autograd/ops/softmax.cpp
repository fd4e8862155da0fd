// Softmax and log-softmax.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>

namespace adret {
namespace {

using namespace kernels;

const char* function_name(bool log) { return log ? "log_softmax" : "softmax"; }

struct SoftmaxNode final : Node {
  SoftmaxNode(const Tensor& y, int dim, bool log) : y(y), dim(dim), log(log) {}
  const char* name() const override { return function_name(log); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& dy = grads[0];
    const Tensor out = y.unpack(*this);
    if (!grad_enabled()) {
      const Tensor dx = grad_buffer(0);
      run(SoftmaxBackward{.y = out, .dy = dy, .dx = dx, .dim = dim, .log = log});
      return {dx};
    }
    const ReduceOptions along{.dims = {dim}, .keepdim = true};
    return {log ? dy - exp(out) * sum(dy, along) : out * (dy - sum(dy * out, along))};
  }
  SavedOutput y;
  int dim;
  bool log;
};

Tensor apply(const Tensor& x, int dim, bool log) {
  const FunctionScope scope(function_name(log));
  check::floating(function_name(log), {"x", x});
  const int resolved = x.shape().resolve_dim(function_name(log), dim);
  Tensor y = empty_like(x);
  run(SoftmaxForward{.x = x, .y = y, .dim = resolved, .log = log});
  record<SoftmaxNode>({y}, {x}, y, resolved, log);
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) { return apply(x, dim, false); }
Tensor log_softmax(const Tensor& x, int dim) { return apply(x, dim, true); }

}  // namespace adret
