// Normalisation of each sample by itself: one node for layer, RMS, group and instance norm.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/group_norm.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret {
namespace {

using namespace kernels;

// Of a public function; all but x may be undefined.
struct Operands {
  const char* function;
  const Tensor &x, &added, &weight, &bias;
};

// How x is seen: (N, S, C), in groups of neighbouring channels.
struct Form {
  int64_t samples, places, channels, groups = 1;
  double epsilon = 1e-5;
  bool centered = true;

  Shape shape() const { return {samples, places, channels}; }
  Shape grouped() const { return {samples, places, groups, channels / groups}; }
};

TensorView seen_as(const Tensor& tensor, const Shape& shape) {
  if (!tensor.defined()) return {};
  TensorView view = tensor;
  view.shape = shape;
  return view;
}

// -- the function -------------------------------------------------------------------

// Inputs x, added, weight, bias; outputs y, or the sum and y.
struct SampleNormNode final : Node {
  SampleNormNode(const Operands& in, const Tensor& sum, const Tensor& mean, const Tensor& rstd,
                 const Form& form)
      : function(in.function),
        x(sum.defined() ? Tensor() : in.x),
        weight(in.weight),
        mean(mean),
        rstd(rstd),
        sum(sum),
        form(form),
        bias_shape(in.bias.defined() ? in.bias.shape() : Shape()) {}
  const char* name() const override { return function; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor& dy = grads.back();
    const Tensor dsum = sum.defined() ? grads[0] : Tensor();
    if (!dy.defined()) return to_inputs(dsum);
    if (grad_enabled()) return composed(dy, dsum);
    const Tensor dx = input_buffer(dy);
    std::vector<Tensor> result = to_inputs(dx);
    for (size_t i = 2; i < 4; ++i) {
      if (needs_gradient(i)) result[i] = grad_buffer(i);
    }
    run(GroupNormBackward{.x = seen_as(normalised_of(), form.shape()),
                          .dy = seen_as(dy, form.shape()),
                          .dsum = seen_as(dsum, form.shape()),
                          .weight = seen_as(weight.unpack(*this), {form.channels}),
                          .mean = mean.unpack(*this),
                          .rstd = rstd.unpack(*this),
                          .dx = seen_as(dx, form.shape()),
                          .dweight = seen_as(result[2], {form.channels}),
                          .dbias = seen_as(result[3], {form.channels}),
                          .groups = form.groups,
                          .centered = form.centered});
    return result;
  }

  // x and what is added to it have one gradient.
  std::vector<Tensor> to_inputs(const Tensor& dx) const {
    std::vector<Tensor> result(4);
    for (size_t i = 0; i < 2; ++i) {
      if (needs_gradient(i)) result[i] = dx;
    }
    return result;
  }

  // A parameter's place in its arena is for that parameter alone.
  Tensor input_buffer(const Tensor& dy) const {
    if (needs_gradient(0) && needs_gradient(1)) return empty_like(dy);
    if (needs_gradient(0)) return grad_buffer(0);
    return needs_gradient(1) ? grad_buffer(1) : Tensor();
  }

  Tensor normalised_of() { return sum.defined() ? sum.unpack(*this) : x.unpack(*this); }

  // From public functions, with the statistics as functions of x: can be differentiated again.
  std::vector<Tensor> composed(const Tensor& grad, const Tensor& dsum) {
    const ReduceOptions group{.dims = {1, 3}, .keepdim = true}, of_channels{.dims = {0, 1}};
    const Tensor in = normalised_of();
    const DType dtype = wide_dtype(in);
    const Tensor wide = in.to(dtype).reshape(form.grouped());
    const Tensor centred = form.centered ? wide - adret::mean(wide, group) : wide;
    const Tensor scale = reciprocal(sqrt(adret::mean(square(centred), group) + form.epsilon));
    const Tensor normalised = centred * scale;
    const Tensor dy = grad.to(dtype).reshape(form.grouped());
    std::vector<Tensor> result(4);
    if (needs_gradient(0) || needs_gradient(1)) {
      const Tensor& of = weight.unpack(*this);
      const Tensor g = of.defined() ? dy * of.reshape(parameter_shape()) : dy;
      Tensor dx = g - normalised * adret::mean(g * normalised, group);
      if (form.centered) dx = dx - adret::mean(g, group);
      dx = (dx * scale).reshape(in.shape()).to(in.dtype());
      result = to_inputs(dsum.defined() ? dx + dsum : dx);
    }
    if (needs_gradient(2)) {
      result[2] = adret::sum(dy * normalised, of_channels).reshape(weight.unpack(*this).shape());
    }
    if (needs_gradient(3)) result[3] = adret::sum(dy, of_channels).reshape(bias_shape);
    return result;
  }
  Shape parameter_shape() const { return {form.groups, form.channels / form.groups}; }

  const char* function;
  SavedTensor x, weight, mean, rstd;
  SavedOutput sum;
  Form form;
  Shape bias_shape;
};

void check_operands(const Operands& in, const Form& form, const Shape& parameters) {
  const auto& [function, x, added, weight, bias] = in;
  check::epsilon(function, form.epsilon);
  check::alike(function, {"x", x}, {"added", added});
  check::shape(function, {"added", added}, x.shape());
  for (const check::Argument& argument :
       {check::Argument{"weight", weight}, check::Argument{"bias", bias}}) {
    check::same_device(function, {"x", x}, argument);
    check::shape(function, argument, parameters);
    check::dtype(function, argument, wide_dtype(x));
  }
  if (form.places * form.channels == 0) {
    check::refuse(function, fmt::format("a sample of x {} has no values", to_string(x.shape())));
  }
}

// The sum is left undefined when nothing is added.
NormedSum normalise(const Operands& in, const Form& form) {
  const TensorOptions wide{.dtype = wide_dtype(in.x), .device = in.x.device()};
  const Shape groups{form.samples, form.groups};
  Tensor y = empty_like(in.x);
  const Tensor sum = in.added.defined() ? empty_like(in.x) : Tensor();
  const Tensor mean = form.centered ? Tensor::empty(groups, wide) : Tensor();
  const Tensor rstd = Tensor::empty(groups, wide);
  run(GroupNormForward{.x = seen_as(in.x, form.shape()),
                       .added = seen_as(in.added, form.shape()),
                       .weight = seen_as(in.weight, {form.channels}),
                       .bias = seen_as(in.bias, {form.channels}),
                       .sum = seen_as(sum, form.shape()),
                       .y = seen_as(y, form.shape()),
                       .mean = mean,
                       .rstd = rstd,
                       .groups = form.groups,
                       .epsilon = form.epsilon,
                       .centered = form.centered});
  const auto outputs = sum.defined() ? std::vector<Tensor>{sum, y} : std::vector<Tensor>{y};
  const std::vector<Tensor> inputs{in.x, in.added, in.weight, in.bias};
  record<SampleNormNode>(outputs, inputs, in, sum, mean, rstd, form);
  return {sum, y};
}

// -- trailing dimensions ---------------------------------------------------------------

NormedSum over_trailing(const Operands& in, const LayerNormOptions& options, bool centered) {
  const FunctionScope scope(in.function);
  const Tensor& x = in.x;
  check::floating(in.function, {"x", x});
  if (options.dims < 1 || options.dims > x.rank()) {
    check::refuse(in.function, fmt::format("dims is {}, wanted 1..{} for x {}", options.dims,
                                           x.rank(), to_string(x.shape())));
  }
  Shape trailing = x.shape();
  int64_t samples = 1;
  for (int d = x.rank() - options.dims; d > 0; --d) {
    samples *= trailing[0];
    trailing = trailing.without(0);
  }
  const Form form{.samples = samples,
                  .places = 1,
                  .channels = trailing.numel(),
                  .epsilon = options.epsilon,
                  .centered = centered};
  check_operands(in, form, trailing);
  return normalise(in, form);
}

NormedSum of_sum(const Operands& in, const LayerNormOptions& options, bool centered) {
  const FunctionScope scope(in.function);
  check::floating(in.function, {"added", in.added});
  return over_trailing(in, options, centered);
}

// -- channels --------------------------------------------------------------------------

Tensor over_places(const Operands& in, int64_t groups, const GroupNormOptions& options) {
  const Tensor& x = in.x;
  const int64_t channels = x.size(-1);
  const Shape places = x.shape().without(0).without(x.rank() - 2);
  const Form form{.samples = x.size(0),
                  .places = places.numel(),
                  .channels = channels,
                  .groups = groups,
                  .epsilon = options.epsilon};
  check_operands(in, form, {channels});
  return normalise(in, form).y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const LayerNormOptions& options) {
  return over_trailing({"layer_norm", x, {}, weight, bias}, options, true).y;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, const LayerNormOptions& options) {
  return over_trailing({"rms_norm", x, {}, weight, {}}, options, false).y;
}

NormedSum layer_norm_of_sum(const Tensor& x, const Tensor& added, const Tensor& weight,
                            const Tensor& bias, const LayerNormOptions& options) {
  return of_sum({"layer_norm_of_sum", x, added, weight, bias}, options, true);
}

NormedSum rms_norm_of_sum(const Tensor& x, const Tensor& added, const Tensor& weight,
                          const LayerNormOptions& options) {
  return of_sum({"rms_norm_of_sum", x, added, weight, {}}, options, false);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  const GroupNormOptions& options) {
  const FunctionScope scope("group_norm");
  check::floating("group_norm", {"x", x});
  if (x.rank() < 2) check::refuse_shape("group_norm", {"x", x}, "(N, ..., C)");
  if (groups < 1 || x.size(-1) % groups != 0) {
    check::refuse("group_norm", fmt::format("{} groups do not divide the {} channels of x {}",
                                            groups, x.size(-1), to_string(x.shape())));
  }
  return over_places({"group_norm", x, {}, weight, bias}, groups, options);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const GroupNormOptions& options) {
  const FunctionScope scope("instance_norm");
  check::floating("instance_norm", {"x", x});
  if (x.rank() < 3) check::refuse_shape("instance_norm", {"x", x}, "(N, ..., C)");
  if (x.numel() == x.size(0) * x.size(-1) && x.numel() > 0) {
    check::refuse("instance_norm",
                  fmt::format("x {} has a single value per sample and channel, whose deviation is "
                              "always 0; use a larger image",
                              to_string(x.shape())));
  }
  return over_places({"instance_norm", x, {}, weight, bias}, std::max<int64_t>(1, x.size(-1)),
                     options);
}

}  // namespace adret
