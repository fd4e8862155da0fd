// Batch normalisation.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/norm.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
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

struct BatchNormNode final : Node {
  BatchNormNode(const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                double epsilon)
      : x(x), weight(weight), mean(mean), rstd(rstd), epsilon(epsilon) {}
  const char* name() const override { return "batch_norm"; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (grad_enabled()) return composed(grads[0]);
    std::vector<Tensor> result(3);
    for (size_t i = 0; i < 3; ++i) {
      if (needs_gradient(i)) result[i] = grad_buffer(i);
    }
    run(BatchNormBackward{.x = x.unpack(*this),
                          .dy = grads[0],
                          .weight = weight.unpack(*this),
                          .mean = mean.unpack(*this),
                          .rstd = rstd.unpack(*this),
                          .dx = result[0],
                          .dweight = result[1],
                          .dbias = result[2]});
    return result;
  }

  // From public functions, with the statistics as functions of x: can be differentiated again.
  std::vector<Tensor> composed(const Tensor& grad) const {
    const Tensor& in = x.unpack(*this);
    const DType dtype = wide_dtype(in);
    const Tensor dy = grad.to(dtype), wide = in.to(dtype);
    const Tensor centred = wide - channel_mean(wide);
    const Tensor scale = reciprocal(sqrt(channel_mean(square(centred)) + epsilon));
    const Tensor normalised = centred * scale;
    std::vector<Tensor> result(3);
    if (needs_gradient(0)) {
      const Tensor factor = weight.defined() ? scale * weight.unpack(*this) : scale;
      const Tensor dx = dy - channel_mean(dy) - normalised * channel_mean(dy * normalised);
      result[0] = (dx * factor).to(in.dtype());
    }
    if (needs_gradient(1)) result[1] = channel_sum(dy * normalised);
    if (needs_gradient(2)) result[2] = channel_sum(dy);
    return result;
  }

  SavedTensor x, weight, mean, rstd;
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
  run(BatchNormForward{.x = x,
                       .weight = weight,
                       .bias = bias,
                       .running_mean = running_mean,
                       .running_var = running_var,
                       .y = y,
                       .mean = mean,
                       .rstd = rstd,
                       .momentum = options.momentum,
                       .epsilon = options.epsilon});
  if (running_mean.defined()) {
    running_mean.bump_version();
    running_var.bump_version();
  }
  record<BatchNormNode>({y}, {x, weight, bias}, x, weight, mean, rstd, options.epsilon);
  return y;
}

// -- evaluation --------------------------------------------------------------------

struct BatchNormInferenceNode final : Node {
  BatchNormInferenceNode(const Tensor& x, const Tensor& weight, const Tensor& mean,
                         const Tensor& var, double epsilon)
      : x(x), weight(weight), mean(mean), var(var), epsilon(epsilon) {}
  const char* name() const override { return "batch_norm"; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& in = x.unpack(*this);
    const DType dtype = wide_dtype(in);
    const Tensor dy = grads[0].to(dtype);
    const Tensor scale = reciprocal(sqrt(var.unpack(*this) + epsilon));
    std::vector<Tensor> result(3);
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
  double epsilon;
};

Tensor evaluate(const Operands& in, const BatchNormOptions& options) {
  const auto& [x, weight, bias, mean, var] = in;
  Tensor y = empty_like(x);
  run(BatchNormInference{.x = x,
                         .weight = weight,
                         .bias = bias,
                         .mean = mean,
                         .var = var,
                         .y = y,
                         .epsilon = options.epsilon});
  record<BatchNormInferenceNode>({y}, {x, weight, bias}, x, weight, mean, var, options.epsilon);
  return y;
}

void check_operands(const Operands& in, bool training) {
  check::floating("batch_norm", {"x", in.x});
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
      (!training && !in.running_mean.defined())) {
    check::refuse("batch_norm",
                  "running_mean and running_var must both be defined, or neither in training");
  }
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  const Operands in{x, weight, bias, running_mean, running_var};
  check_operands(in, options.training);
  return options.training ? train(in, options) : evaluate(in, options);
}

}  // namespace adret
