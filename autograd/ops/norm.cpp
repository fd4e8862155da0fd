// Batch normalisation.
#include <adret/autograd/checkpoint.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/backward.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret {
namespace {

using namespace kernels;

// Values per channel of x (..., C).
int64_t count_per_channel(const Tensor& x) { return x.shape().without(x.rank() - 1).numel(); }

Tensor channel_sum(const Tensor& x) { return sum_to(x, {x.size(-1)}); }
Tensor channel_mean(const Tensor& x) { return channel_sum(x) / double(count_per_channel(x)); }

// Of the public function; all but x may be undefined.
struct Operands {
  const Tensor &x, &weight, &bias, &running_mean, &running_var;
};

// -- training ----------------------------------------------------------------------

// Inputs x, weight, bias, residual. Where y was positive follows from x, weight and bias, so that y
// is kept only if there is a residual.
struct BatchNormNode final : Node {
  BatchNormNode(const Operands& in, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                const BatchNormOptions& options)
      : x(in.x),
        weight(in.weight),
        bias(options.activation == Activation::none ? Tensor() : in.bias),
        mean(mean),
        rstd(rstd),
        y(options.activation != Activation::none && options.residual.defined() ? y : Tensor()),
        activation(options.activation),
        epsilon(options.epsilon) {}
  const char* name() const override { return "batch_norm"; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (grad_enabled()) return composed(grads[0]);
    std::vector<Tensor> result(4);
    for (size_t i = 0; i < 3; ++i) {
      if (needs_gradient(i)) result[i] = grad_buffer(i);
    }
    const bool keeps = needs_gradient(3) && activation != Activation::none;
    if (needs_gradient(3)) result[3] = keeps ? grad_buffer(3) : grads[0];
    run(BatchNormBackward{.x = x.unpack(*this),
                          .dy = grads[0],
                          .y = y.defined() ? y.unpack(*this) : Tensor(),
                          .weight = weight.unpack(*this),
                          .bias = bias.unpack(*this),
                          .mean = mean.unpack(*this),
                          .rstd = rstd.unpack(*this),
                          .dx = result[0],
                          .dweight = result[1],
                          .dbias = result[2],
                          .dresidual = keeps ? result[3] : Tensor(),
                          .activation = activation});
    return result;
  }

  // From public functions, with the statistics as functions of x: can be differentiated again.
  std::vector<Tensor> composed(const Tensor& grad) {
    const Tensor& in = x.unpack(*this);
    const DType dtype = wide_dtype(in);
    const Tensor wide = in.to(dtype);
    const Tensor centred = wide - channel_mean(wide);
    const Tensor scale = reciprocal(sqrt(channel_mean(square(centred)) + epsilon));
    const Tensor normalised = centred * scale;
    Tensor dy = grad.to(dtype);
    if (activation != Activation::none) dy = masked(dy, normalised);
    std::vector<Tensor> result(4);
    if (needs_gradient(3)) result[3] = dy.to(grad.dtype());
    if (needs_gradient(0)) {
      const Tensor factor = weight.defined() ? scale * weight.unpack(*this) : scale;
      const Tensor dx = dy - channel_mean(dy) - normalised * channel_mean(dy * normalised);
      result[0] = (dx * factor).to(in.dtype());
    }
    if (needs_gradient(1)) result[1] = channel_sum(dy * normalised);
    if (needs_gradient(2)) result[2] = channel_sum(dy);
    return result;
  }

  // dy where relu let the value pass, a mask whose own derivative is zero.
  Tensor masked(const Tensor& dy, const Tensor& normalised) {
    if (y.defined()) {
      return activation_backward(UnaryOp::relu, y.unpack(*this).detach().to(dy.dtype()), dy);
    }
    Tensor value = normalised.detach();
    if (weight.defined()) value = value * weight.unpack(*this).detach();
    if (bias.defined()) value = value + bias.unpack(*this).detach();
    return activation_backward(UnaryOp::relu, relu(value), dy);
  }

  SavedTensor x, weight, bias, mean, rstd;
  SavedOutput y;
  Activation activation;
  double epsilon;
};

Tensor train(const Operands& in, const BatchNormOptions& options) {
  const auto& [x, weight, bias, running_mean, running_var] = in;
  if (count_per_channel(x) < 2) {
    check::refuse("batch_norm",
                  fmt::format("training needs more than one value per channel, x {} has {}; use a "
                              "larger batch or image, or evaluation mode",
                              to_string(x.shape()), count_per_channel(x)));
  }
  const TensorOptions wide{.dtype = wide_dtype(x), .device = x.device()};
  Tensor y = empty_like(x);
  const Tensor mean = Tensor::empty({x.size(-1)}, wide), rstd = Tensor::empty({x.size(-1)}, wide);
  BatchNormForward call{.x = x,
                        .weight = weight,
                        .bias = bias,
                        .residual = options.residual,
                        .y = y,
                        .mean = mean,
                        .rstd = rstd,
                        .momentum = options.momentum,
                        .epsilon = options.epsilon,
                        .activation = options.activation};
  const bool updates = !is_recomputing();
  if (updates) {
    call.running_mean = running_mean;
    call.running_var = running_var;
    call.num_batches = options.num_batches_tracked;
  }
  run(call);
  if (updates && running_mean.defined()) {
    raise_version(running_mean);
    raise_version(running_var);
  }
  if (updates && options.num_batches_tracked.defined()) {
    raise_version(options.num_batches_tracked);
  }
  record<BatchNormNode>({y}, {x, weight, bias, options.residual}, in, y, mean, rstd, options);
  return y;
}

// -- evaluation --------------------------------------------------------------------

// Inputs x, weight, bias, residual.
struct BatchNormInferenceNode final : Node {
  BatchNormInferenceNode(const Operands& in, const Tensor& y, const BatchNormOptions& options)
      : x(in.x),
        weight(in.weight),
        mean(in.running_mean),
        var(in.running_var),
        y(options.activation == Activation::none ? Tensor() : y),
        epsilon(options.epsilon) {}
  const char* name() const override { return "batch_norm"; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    const DType dtype = wide_dtype(in);
    const Tensor masked =
        y.defined() ? activation_backward(UnaryOp::relu, y.unpack(*this), grads[0]) : grads[0];
    const Tensor dy = masked.to(dtype);
    const Tensor scale = reciprocal(sqrt(var.unpack(*this) + epsilon));
    std::vector<Tensor> result(4);
    if (needs_gradient(3)) result[3] = masked;
    if (needs_gradient(0)) {
      const Tensor factor = weight.defined() ? scale * weight.unpack(*this) : scale;
      result[0] = (dy * factor).to(in.dtype());
    }
    if (needs_gradient(1)) {
      result[1] = channel_sum(dy * ((in.to(dtype) - mean.unpack(*this)) * scale));
    }
    if (needs_gradient(2)) result[2] = channel_sum(dy);
    return result;
  }

  SavedTensor x, weight, mean, var;
  SavedOutput y;  // if there is an activation
  double epsilon;
};

Tensor evaluate(const Operands& in, const BatchNormOptions& options) {
  const auto& [x, weight, bias, mean, var] = in;
  Tensor y = empty_like(x);
  run(BatchNormInference{.x = x,
                         .weight = weight,
                         .bias = bias,
                         .residual = options.residual,
                         .mean = mean,
                         .var = var,
                         .y = y,
                         .epsilon = options.epsilon,
                         .activation = options.activation});
  record<BatchNormInferenceNode>({y}, {x, weight, bias, options.residual}, in, y, options);
  return y;
}

void check_operands(const Operands& in, const BatchNormOptions& options) {
  check::floating("batch_norm", {"x", in.x});
  check::epsilon("batch_norm", options.epsilon);
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    check::refuse("batch_norm", fmt::format("momentum is {}, wanted 0..1", options.momentum));
  }
  if (in.x.rank() < 2) check::refuse_shape("batch_norm", {"x", in.x}, "(N, ..., C)");
  for (const check::Argument& argument : {check::Argument{"weight", in.weight},
                                          {"bias", in.bias},
                                          {"running_mean", in.running_mean},
                                          {"running_var", in.running_var}}) {
    check::same_device("batch_norm", {"x", in.x}, argument);
    check::shape("batch_norm", argument, {in.x.size(-1)});
    check::dtype("batch_norm", argument, wide_dtype(in.x));
  }
  if (in.running_mean.defined() != in.running_var.defined() ||
      (!options.training && !in.running_mean.defined())) {
    check::refuse("batch_norm",
                  "running_mean and running_var must both be defined, or neither in training");
  }
  const check::Argument counter{"num_batches_tracked", options.num_batches_tracked};
  check::same_device("batch_norm", {"x", in.x}, counter);
  check::shape("batch_norm", counter, {});
  check::dtype("batch_norm", counter, DType::i64);
  check::alike("batch_norm", {"x", in.x}, {"residual", options.residual});
  check::shape("batch_norm", {"residual", options.residual}, in.x.shape());
  if (options.activation != Activation::none && options.activation != Activation::relu) {
    check::refuse("batch_norm",
                  fmt::format("activation {} is not fused, wanted none or relu; apply it to the "
                              "result",
                              to_string(options.activation)));
  }
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  const FunctionScope scope("batch_norm");
  const Operands in{x, weight, bias, running_mean, running_var};
  check_operands(in, options);
  return options.training ? train(in, options) : evaluate(in, options);
}

}  // namespace adret
