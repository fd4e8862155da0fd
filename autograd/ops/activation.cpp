// Activation functions and their derivatives.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/backward.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/elementary.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/holds.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace adret {
namespace {

using namespace kernels;

Tensor unary_backward(UnaryOp op, const Tensor& saved, const Tensor& dy, const Tensor& dx) {
  run(UnaryBackward{.saved = saved, .dy = dy, .dx = dx, .op = op});
  return dx;
}

Tensor gelu_backward(const Tensor& x, const Tensor& dy);

// Moved to where a slope does not change any more, so that its 0 does not meet infinity, as in Note
// [Limits of activations] in core/cpu/elementwise_activation.cpp.
Tensor near(const Tensor& x, double low, double high) { return clamp(x, low, high); }
Tensor near(const Tensor& x, double limit) { return near(x, -limit, limit); }
double far(const Tensor& x) { return x.dtype() == DType::f64 ? 750 : 110; }

// gelu'' = phi(x) (2 - x^2), with the standard normal density phi.
struct GeluSecondBackward final : Node {
  GeluSecondBackward(const Tensor& x, const Tensor& dy) : x(x), dy(dy) {}
  const char* name() const override { return "gelu_backward"; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      const Tensor squared = square(near(in, 50));
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

// Of plain functions, to be differentiated again.
Tensor gelu_tanh_backward(const Tensor& x, const Tensor& dy) {
  const double linear = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double cubic = 0.044715 * linear;
  const Tensor in = near(x, x.dtype() == DType::f64 ? 22 : 11), squared = square(in);
  const Tensor s = sigmoid(in * affine(squared, cubic, linear));
  return dy * (s + s * (1 - s) * in * affine(squared, 3 * cubic, linear));
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
    case UnaryOp::gelu_tanh: return gelu_tanh_backward(saved, dy);
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

// -- of a saved input, with parameters ---------------------------------------------

namespace {

Tensor is_below(const Tensor& x, double limit) { return less_equal(x, scalar_like(x, limit)); }
Tensor is_above(const Tensor& x, double limit) { return greater_equal(x, scalar_like(x, limit)); }
Tensor is_positive(const Tensor& x) { return greater(x, scalar_like(x, 0)); }

// dy times the derivative, of functions that can be differentiated again; `call` says which.
Tensor composed(const Unary& call, const Tensor& x, const Tensor& dy) {
  const double alpha = call.alpha, beta = call.beta;
  switch (call.op) {
    case UnaryOp::gelu_tanh: return gelu_tanh_backward(x, dy);
    case UnaryOp::silu: {
      const Tensor in = near(x, far(x)), s = sigmoid(in);
      return dy * (s + s * (1 - s) * in);
    }
    case UnaryOp::mish: {
      const Tensor in = near(x, -far(x), 20), t = tanh(softplus(in));
      return dy * (t + in * sigmoid(in) * (1 - square(t)));
    }
    case UnaryOp::softplus:
      return where(greater(x * alpha, scalar_like(x, beta)), dy, dy * sigmoid(x * alpha));
    case UnaryOp::elu: {
      const Tensor left = clamp(x, -std::numeric_limits<double>::infinity(), 0);
      return where(is_positive(x), dy * beta, dy * exp(left) * (alpha * beta));
    }
    case UnaryOp::leaky_relu: return where(is_positive(x), dy, dy * alpha);
    case UnaryOp::hardsigmoid: return where(logical_or(is_below(x, -3), is_above(x, 3)), 0, dy / 6);
    case UnaryOp::hardswish:
      return where(is_below(x, -3), 0,
                   where(is_above(x, 3), dy, dy * affine(near(x, 3), 1. / 3, 0.5)));
    default: return dy * square(reciprocal(abs(x) + 1));  // softsign
  }
}

struct CurveBackward final : Node {
  CurveBackward(const Unary& call, const Tensor& x)
      : op(call.op), alpha(call.alpha), beta(call.beta), x(x) {}
  const char* name() const override { return to_string(op); }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    const Tensor& dy = grads[0];
    if (grad_enabled()) return {composed({.op = op, .alpha = alpha, .beta = beta}, in, dy)};
    const Tensor dx = dy.is_unique() ? dy : empty_like(dy);
    run(UnaryBackward{.saved = in, .dy = dy, .dx = dx, .op = op, .alpha = alpha, .beta = beta});
    return {dx};
  }
  UnaryOp op;
  double alpha, beta;
  SavedTensor x;
};

// `scalar` is of the user.
Tensor curve(const char* function, const Tensor& x, const Unary& call, double scalar = 0) {
  const FunctionScope scope(function);
  check::floating(function, {"x", x});
  check_holds(function, scalar, x.dtype());
  Tensor y = empty_like(x);
  run(Unary{.x = x, .y = y, .op = call.op, .alpha = call.alpha, .beta = call.beta});
  record<CurveBackward>({y}, {x}, call, x);
  return y;
}

}  // namespace

Tensor gelu_tanh(const Tensor& x) { return curve("gelu_tanh", x, {.op = UnaryOp::gelu_tanh}); }
Tensor silu(const Tensor& x) { return curve("silu", x, {.op = UnaryOp::silu}); }
Tensor mish(const Tensor& x) { return curve("mish", x, {.op = UnaryOp::mish}); }
Tensor softsign(const Tensor& x) { return curve("softsign", x, {.op = UnaryOp::softsign}); }
Tensor hardsigmoid(const Tensor& x) {
  return curve("hardsigmoid", x, {.op = UnaryOp::hardsigmoid});
}
Tensor hardswish(const Tensor& x) { return curve("hardswish", x, {.op = UnaryOp::hardswish}); }

Tensor softplus(const Tensor& x, const SoftplusOptions& options) {
  if (options.beta == 0) check::refuse("softplus", "beta is 0, wanted any other number");
  return curve("softplus", x,
               {.op = UnaryOp::softplus, .alpha = options.beta, .beta = options.threshold},
               options.beta);
}

// -softplus(-x) is softplus with beta = -1.
Tensor logsigmoid(const Tensor& x) {
  const double never = std::numeric_limits<double>::infinity();
  return curve("logsigmoid", x, {.op = UnaryOp::softplus, .alpha = -1, .beta = never});
}

Tensor elu(const Tensor& x, double alpha) {
  return curve("elu", x, {.op = UnaryOp::elu, .alpha = alpha, .beta = 1}, alpha);
}

Tensor selu(const Tensor& x) {
  return curve("selu", x,
               {.op = UnaryOp::elu, .alpha = 1.6732632423543772848, .beta = 1.0507009873554804934});
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return curve("leaky_relu", x, {.op = UnaryOp::leaky_relu, .alpha = slope}, slope);
}

Tensor hardtanh(const Tensor& x, double low, double high) {
  const FunctionScope scope("hardtanh");
  check::floating("hardtanh", {"x", x});
  return clamp(x, low, high);
}

// -- of several operands ----------------------------------------------------------

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const FunctionScope scope("prelu");
  check::alike("prelu", {"x", x}, {"weight", weight});
  check::rank("prelu", {"weight", weight}, 1, "(1) or (C)");
  if (weight.numel() != 1 && (x.rank() == 0 || weight.numel() != x.size(-1))) {
    check::refuse("prelu", fmt::format("weight has {} slopes, x {} wants 1 or one for each channel",
                                       weight.numel(), to_string(x.shape())));
  }
  // Infinity that the slope does not concern must not meet its gradient's 0.
  const Tensor positive = is_positive(x);
  return where(positive, x, where(positive, 0, x) * weight);
}

Tensor glu(const Tensor& x, int dim) {
  const FunctionScope scope("glu");
  check::floating("glu", {"x", x});
  const int64_t size = x.size(x.shape().resolve_dim("glu", dim));
  if (size % 2 != 0) {
    check::refuse("glu", fmt::format("dimension {} of x {} has an odd size, wanted two halves", dim,
                                     to_string(x.shape())));
  }
  return slice(x, dim, 0, size / 2) * sigmoid(slice(x, dim, size / 2, size));
}

}  // namespace adret
