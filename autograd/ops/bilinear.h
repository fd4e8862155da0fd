// Functions y = activation(x * weight + bias) whose product is linear in x and in weight, such as
// the linear layer and the convolutions, with derivatives of any order.
#pragma once

#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/backward.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/matmul.h>

namespace adret {

// Note [Bilinear products]
// Of x * weight the gradients are dx = dy * weight and dweight = x * dy, with products of their own
// kind, which are bilinear again; their gradients need no fourth product. So three kernels and
// three nodes that call each other give every derivative. P holds the parameters, among them the
// forward's math mode, and runs the kernels on allocated tensors, of which bias, dbias and `before`
// may be undefined:
//   static constexpr const char *name, *input_name, *weight_name;
//   void forward(const BilinearForward& call) const;
//   void backward_input(const Tensor& dy, const Tensor& weight, const Tensor& dx) const;
//   void backward_weight(const Tensor& x, const Tensor& dy, const WeightGradients& out) const;

struct BilinearForward {
  const Tensor &x, &weight, &bias, &y;
  kernels::Activation activation = kernels::Activation::none;
  Tensor before = {};  // gets what a gelu is of, when the node needs it
};

struct WeightGradients {
  Tensor weight, bias;  // (O, ...) and (O)
};

// Each writes into its last argument, allocated by the caller, and returns it.
template <class P>
Tensor bilinear(const P& product, const BilinearForward& call);
template <class P>
Tensor input_gradient(const P& product, const Tensor& dy, const Tensor& weight, const Tensor& dx);
template <class P>
WeightGradients weight_gradients(const P& product, const Tensor& x, const Tensor& dy,
                                 const WeightGradients& out);

template <class P>
struct BilinearBackward final : Node {
  BilinearBackward(const P& product, const BilinearForward& call)
      : product(product),
        x(call.weight.requires_grad() ? call.x : Tensor()),
        weight(call.x.requires_grad() ? call.weight : Tensor()),
        activation(call.activation),
        of_activation(call.before.defined()                     ? SavedOutput(call.before, 1)
                      : activation == kernels::Activation::none ? SavedOutput(Tensor())
                                                                : SavedOutput(call.y)) {}
  const char* name() const override { return P::name; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor dy = before_activation(grads);
    std::vector<Tensor> result(3);
    if (needs_gradient(0)) {
      result[0] = input_gradient(product, dy, weight.unpack(*this), grad_buffer(0));
    }
    if (needs_gradient(1)) {
      const auto [dweight, dbias] =
          weight_gradients(product, x.unpack(*this), dy,
                           {grad_buffer(1), needs_gradient(2) ? grad_buffer(2) : Tensor()});
      result[1] = dweight;
      result[2] = dbias;
    } else if (needs_gradient(2)) {
      result[2] = sum_to(dy, {dy.size(-1)});
    }
    return result;
  }
  // The gradient of x * weight + bias. For a gelu that is an output of its own, to which the second
  // derivative comes.
  Tensor before_activation(const std::vector<Tensor>& grads) {
    const Tensor dy =
        activation == kernels::Activation::none || !grads[0].defined()
            ? grads[0]
            : activation_backward(unary_of(activation), of_activation.unpack(*this), grads[0]);
    if (grads.size() == 1 || !grads[1].defined()) return dy;
    return dy.defined() ? dy + grads[1] : grads[1];
  }

  P product;
  SavedTensor x, weight;
  kernels::Activation activation;
  SavedOutput of_activation;  // y of relu, `before` of a gelu
};

template <class P>
struct InputGradientBackward final : Node {
  InputGradientBackward(const P& product, const Tensor& dy, const Tensor& weight)
      : product(product), dy(dy), weight(weight) {}
  const char* name() const override { return P::input_name; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    std::vector<Tensor> result(2);
    if (needs_gradient(0)) {
      result[0] = bilinear(product, {grads[0], weight.unpack(*this), Tensor(), grad_buffer(0)});
    }
    if (needs_gradient(1)) {
      result[1] =
          weight_gradients(product, grads[0], dy.unpack(*this), {grad_buffer(1), {}}).weight;
    }
    return result;
  }
  P product;
  SavedTensor dy, weight;
};

template <class P>
struct WeightGradientsBackward final : Node {
  WeightGradientsBackward(const P& product, const Tensor& x, const Tensor& dy)
      : product(product), x(x), dy(dy) {}
  const char* name() const override { return P::weight_name; }
  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& of_weight = grads[0];
    const Tensor of_bias = grads.size() > 1 ? grads[1] : Tensor();
    std::vector<Tensor> result(2);
    if (needs_gradient(0) && of_weight.defined()) {
      result[0] = input_gradient(product, dy.unpack(*this), of_weight, grad_buffer(0));
    }
    if (needs_gradient(1) && of_weight.defined()) {
      result[1] = bilinear(product, {x.unpack(*this), of_weight, of_bias, grad_buffer(1)});
    } else if (needs_gradient(1)) {
      result[1] = broadcast_to(of_bias, dy.unpack(*this).shape());
    }
    return result;
  }
  P product;
  SavedTensor x, dy;
};

template <class P>
Tensor bilinear(const P& product, const BilinearForward& call) {
  const bool recorded = grad_enabled() && (call.x.requires_grad() || call.weight.requires_grad() ||
                                           (call.bias.defined() && call.bias.requires_grad()));
  if (!is_gelu(call.activation) || !recorded) {
    product.forward(call);
    record<BilinearBackward<P>>({call.y}, {call.x, call.weight, call.bias}, product, call);
    return call.y;
  }
  BilinearForward with_before = call;
  with_before.before = empty_like(call.y);
  product.forward(with_before);
  record<BilinearBackward<P>>({call.y, with_before.before}, {call.x, call.weight, call.bias},
                              product, with_before);
  return call.y;
}

template <class P>
Tensor input_gradient(const P& product, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  product.backward_input(dy, weight, dx);
  record<InputGradientBackward<P>>({dx}, {dy, weight}, product, dy, weight);
  return dx;
}

template <class P>
WeightGradients weight_gradients(const P& product, const Tensor& x, const Tensor& dy,
                                 const WeightGradients& out) {
  product.backward_weight(x, dy, out);
  if (out.bias.defined()) {
    record<WeightGradientsBackward<P>>({out.weight, out.bias}, {x, dy}, product, x, dy);
  } else {
    record<WeightGradientsBackward<P>>({out.weight}, {x, dy}, product, x, dy);
  }
  return out;
}

}  // namespace adret
