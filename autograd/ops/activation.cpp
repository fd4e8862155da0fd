// Activation functions and their derivatives.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/backward.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>

#include <cmath>
#include <numbers>

namespace adret {
namespace {

using namespace kernels;

Tensor unary_backward(UnaryOp op, const Tensor& saved, const Tensor& dy, const Tensor& dx) {
  run(UnaryBackward{.saved = saved, .dy = dy, .dx = dx, .op = op});
  return dx;
}

Tensor gelu_backward(const Tensor& x, const Tensor& dy);

// gelu'' = phi(x) (2 - x^2), with the standard normal density phi.
struct GeluSecondBackward final : Node {
  GeluSecondBackward(const Tensor& x, const Tensor& dy) : x(x), dy(dy) {}
  const char* name() const override { return "gelu_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      const Tensor squared = square(in);
      const double scale = 1 / std::sqrt(2 * std::numbers::pi);
      result[0] = grads[0] * dy.unpack(*this) * (exp(squared * -0.5) * scale) * (2 - squared);
    }
    if (needs_gradient(1)) result[1] = gelu_backward(in, grads[0]);
    return result;
  }
  SavedTensor x, dy;
};

Tensor gelu_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx = unary_backward(UnaryOp::gelu, x, dy, empty_like(dy));
  record<GeluSecondBackward>({dx}, {x, dy}, x, dy);
  return dx;
}

}  // namespace

Tensor activation_backward(UnaryOp op, const Tensor& saved, const Tensor& dy) {
  if (!grad_enabled()) {
    return unary_backward(op, saved, dy, dy.is_unique() ? dy : empty_like(dy));
  }
  switch (op) {
    case UnaryOp::relu: return dy * sign(saved);  // an output of relu: 0 or positive
    case UnaryOp::relu6: return dy * sign(saved) * sign(6 - saved);  // an output: 0 to 6
    case UnaryOp::sigmoid: return dy * saved * (1 - saved);
    case UnaryOp::tanh: return dy * (1 - square(saved));
    default: return gelu_backward(saved, dy);
  }
}

namespace {

// Of relu, relu6, sigmoid and tanh, whose derivatives follow from the output.
struct ActivationBackward final : Node {
  ActivationBackward(UnaryOp op, const Tensor& y) : op(op), y(y) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {activation_backward(op, y.unpack(*this), grads[0])};
  }
  UnaryOp op;
  SavedOutput y;
};

struct GeluBackward final : Node {
  explicit GeluBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "gelu"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    return {activation_backward(UnaryOp::gelu, x.unpack(*this), grads[0])};
  }
  SavedTensor x;
};

Tensor activate(UnaryOp op, const Tensor& x) {
  const FunctionScope scope(to_string(op));
  check::floating(to_string(op), {"x", x});
  Tensor y = empty_like(x);
  run(Unary{.x = x, .y = y, .op = op});
  if (op == UnaryOp::gelu) {
    record<GeluBackward>({y}, {x}, x);
  } else {
    record<ActivationBackward>({y}, {x}, op, y);
  }
  return y;
}

}  // namespace

Tensor relu(const Tensor& x) { return activate(UnaryOp::relu, x); }
Tensor relu6(const Tensor& x) { return activate(UnaryOp::relu6, x); }
Tensor sigmoid(const Tensor& x) { return activate(UnaryOp::sigmoid, x); }
Tensor tanh(const Tensor& x) { return activate(UnaryOp::tanh, x); }
Tensor gelu(const Tensor& x) { return activate(UnaryOp::gelu, x); }

}  // namespace adret
