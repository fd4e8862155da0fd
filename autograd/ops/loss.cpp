// Loss functions.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <numeric>

namespace adret {
namespace {

using namespace kernels;

// -- cross-entropy -------------------------------------------------------------------

// logits (N, C), labels (N).
struct CrossEntropyNode final : Node {
  CrossEntropyNode(const Tensor& logits, const Tensor& labels, const Tensor& class_weights,
                   const Tensor& log_sum_exp, const Tensor& counted,
                   const CrossEntropyParams& params)
      : logits(logits),
        labels(labels),
        class_weights(class_weights),
        log_sum_exp(log_sum_exp),
        counted(counted),
        params(params) {}
  const char* name() const override { return "cross_entropy"; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    if (grad_enabled()) return {composed(grads[0])};
    const Tensor dlogits = grad_buffer(0);
    run(CrossEntropyBackward{.logits = logits.unpack(*this),
                             .labels = labels.unpack(*this),
                             .class_weights = class_weights.unpack(*this),
                             .log_sum_exp = log_sum_exp.unpack(*this),
                             .counted = counted.unpack(*this),
                             .dloss = grads[0],
                             .dlogits = dlogits,
                             .loss_params = params});
    return {dlogits};
  }

  // (sum(target) softmax(logits) - target) * dloss from public functions: can be differentiated
  // again.
  Tensor composed(const Tensor& dloss) const {
    const Tensor& x = logits.unpack(*this);
    const Tensor wide = x.to(dloss.dtype());
    const Tensor column = labels.unpack(*this).to(DType::i64).reshape({-1, 1});
    std::vector<int64_t> numbers(size_t(x.size(1)));
    std::iota(numbers.begin(), numbers.end(), 0);
    const Tensor classes = Tensor::from(numbers, {1, x.size(1)}, x.device());
    Tensor target = equal(column, classes).to(dloss.dtype()) * (1 - params.label_smoothing) +
                    params.label_smoothing / double(x.size(1));
    Tensor shares = softmax(wide);
    if (const Tensor& weights = class_weights.unpack(*this); weights.defined()) {
      target = target * weights;
      shares = shares * sum(target, {.dims = {1}, .keepdim = true});
    }
    const Tensor ignored =
        Tensor::full({}, double(params.ignore_index), {.dtype = DType::i64, .device = x.device()});
    const Tensor counts = not_equal(column, ignored).to(dloss.dtype());
    Tensor scale = params.reduction == Reduction::none ? dloss.reshape({-1, 1}) : dloss;
    if (params.reduction == Reduction::mean) {
      const Tensor& divisor = counted.unpack(*this);
      scale = scale / where(equal(divisor, scalar_like(divisor, 0)), 1, divisor);
    }
    return ((shares - target) * counts * scale).to(x.dtype());
  }

  SavedTensor logits, labels, class_weights, log_sum_exp, counted;
  CrossEntropyParams params;
};

void check_smoothing(double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return;
  check::refuse("cross_entropy",
                fmt::format("label_smoothing is {}, wanted 0..1", label_smoothing));
}

void check_class_weights(const Tensor& logits, const Tensor& weights) {
  const check::Argument argument{"class_weights", weights};
  check::same_device("cross_entropy", {"logits", logits}, argument);
  check::shape("cross_entropy", argument, {logits.size(-1)});
  check::dtype("cross_entropy", argument, wide_dtype(logits));
  if (!weights.defined() || !weights.requires_grad()) return;
  throw Error(
      "[cross_entropy] class_weights ask for a gradient, which they do not get; detach them, or "
      "multiply log_softmax by them");
}

void check_cross_entropy(const Tensor& logits, const Tensor& labels,
                         const CrossEntropyOptions& options) {
  check::floating("cross_entropy", {"logits", logits});
  check::same_device("cross_entropy", {"logits", logits}, {"labels", labels});
  check::integer("cross_entropy", {"labels", labels});
  if (logits.rank() == 0) check::refuse_shape("cross_entropy", {"logits", logits}, "(..., C)");
  if (logits.shape().without(logits.rank() - 1) != labels.shape()) {
    check::refuse("cross_entropy",
                  fmt::format("logits (..., C) are {}, labels {}; wanted one label a sample: {}",
                              to_string(logits.shape()), to_string(labels.shape()),
                              to_string(logits.shape().without(logits.rank() - 1))));
  }
  check_smoothing(options.label_smoothing);
  check_class_weights(logits, options.class_weights);
  const int64_t classes = logits.size(-1);
  if (const auto wrong = check::first_outside(labels, classes, options.ignore_index)) {
    throw Error(fmt::format("[cross_entropy] label {} of sample {} is outside 0..{} ({} classes)",
                            wrong->index, wrong->place, classes - 1, classes));
  }
}

// Labels are shares of the classes, of the logits' shape.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& labels,
                          const CrossEntropyOptions& options) {
  check::floating("cross_entropy", {"logits", logits});
  check::same_device("cross_entropy", {"logits", logits}, {"labels", labels});
  if (logits.rank() == 0) check::refuse_shape("cross_entropy", {"logits", logits}, "(..., C)");
  if (logits.shape() != labels.shape()) {
    check::refuse(
        "cross_entropy",
        fmt::format("labels are {} {}; class labels are i32 or i64, floating ones shares of the "
                    "classes in the logits' shape {}",
                    to_string(labels.shape()), name(labels.dtype()), to_string(logits.shape())));
  }
  check_smoothing(options.label_smoothing);
  check_class_weights(logits, options.class_weights);
  const DType wide = wide_dtype(logits);
  Tensor shares = labels.to(wide);
  if (const double s = options.label_smoothing; s > 0) {
    shares = shares * (1 - s) +
             sum(shares, {.dims = {-1}, .keepdim = true}) * (s / double(logits.size(-1)));
  }
  if (options.class_weights.defined()) shares = shares * options.class_weights;
  const Tensor losses = -sum(log_softmax(logits.to(wide)) * shares, {.dims = {-1}});
  switch (options.reduction) {
    case Reduction::none: return losses;
    case Reduction::sum: return sum(losses);
    case Reduction::mean: break;
  }
  return mean(losses);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options) {
  const FunctionScope scope("cross_entropy");
  if (is_floating(labels.dtype())) return soft_cross_entropy(logits, labels, options);
  check_cross_entropy(logits, labels, options);
  const int64_t samples = labels.numel();
  const Tensor flat = logits.rank() == 2 ? logits : logits.reshape({samples, logits.size(-1)});
  const Tensor flat_labels = labels.rank() == 1 ? labels : labels.reshape({samples});
  const bool reduced = options.reduction != Reduction::none;

  const TensorOptions wide{.dtype = wide_dtype(logits), .device = logits.device()};
  Tensor loss = Tensor::empty(reduced ? Shape{} : Shape{samples}, wide);
  const Tensor log_sum_exp = Tensor::empty({samples}, wide);
  const Tensor counted = Tensor::empty({}, wide);
  const CrossEntropyParams params{.label_smoothing = options.label_smoothing,
                                  .ignore_index = options.ignore_index,
                                  .reduction = options.reduction};
  run(CrossEntropyForward{.logits = flat,
                          .labels = flat_labels,
                          .class_weights = options.class_weights,
                          .loss = loss,
                          .log_sum_exp = log_sum_exp,
                          .counted = counted,
                          .loss_params = params});
  record<CrossEntropyNode>({loss}, {flat}, flat, flat_labels, options.class_weights, log_sum_exp,
                           counted, params);
  return reduced || labels.rank() == 1 ? loss : loss.reshape(labels.shape());
}

// -- mean squared error ----------------------------------------------------------------

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const MseOptions& options) {
  const FunctionScope scope("mse_loss");
  check::alike("mse_loss", {"prediction", prediction}, {"target", target});
  check::floating("mse_loss", {"prediction", prediction});
  if (prediction.shape() != target.shape()) {
    check::refuse("mse_loss",
                  fmt::format("prediction is {}, target {}; shapes must be equal, "
                              "reshape one of them",
                              to_string(prediction.shape()), to_string(target.shape())));
  }
  const DType wide = wide_dtype(prediction);
  Tensor squares = square(prediction.to(wide) - target.to(wide));
  switch (options.reduction) {
    case Reduction::none: return squares;
    case Reduction::sum: return sum(squares);
    case Reduction::mean: break;
  }
  return mean(squares);
}

}  // namespace adret
