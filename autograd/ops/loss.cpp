// Losses of classification.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/check.h>
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <limits>

namespace adret {
namespace {

using namespace kernels;

// Whether a label is not the one that counts for nothing.
Tensor that_count(const Tensor& labels, int64_t ignore_index) {
  const Tensor wide = labels.to(DType::i64);
  return not_equal(wide, scalar_like(wide, double(ignore_index)));
}
// What a mean is divided by; the mean of nothing is 0.
Tensor or_one(const Tensor& divisor) {
  return where(equal(divisor, scalar_like(divisor, 0)), 1, divisor);
}

// -- labels --------------------------------------------------------------------------

// logits (N, C), which are not kept of log-probabilities; labels (N).
struct CrossEntropyNode final : Node {
  CrossEntropyNode(const Tensor& logits, const Tensor& labels, const Tensor& class_weights,
                   const Tensor& log_sum_exp, const Tensor& counted,
                   const CrossEntropyParams& params)
      : logits(params.log_probabilities ? Tensor() : logits),
        labels(labels),
        class_weights(class_weights),
        log_sum_exp(log_sum_exp),
        counted(counted),
        params(params),
        classes(logits.size(1)),
        dtype(logits.dtype()) {}
  const char* name() const override {
    return params.log_probabilities ? "nll_loss" : "cross_entropy";
  }

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
    const Tensor column = labels.unpack(*this).reshape({-1, 1});
    const Tensor& weights = class_weights.unpack(*this);
    Tensor target = one_hot(labels.unpack(*this), classes, dloss.dtype());
    target = target * (1 - params.label_smoothing) + params.label_smoothing / double(classes);
    if (weights.defined()) target = target * weights;
    Tensor slope = -target;
    if (!params.log_probabilities) {
      const Tensor shares = softmax(logits.unpack(*this).to(dloss.dtype()));
      slope = (weights.defined() ? shares * sum(target, {.dims = {1}, .keepdim = true}) : shares) -
              target;
    }
    const Tensor counts = that_count(column, params.ignore_index).to(dloss.dtype());
    Tensor scale = params.reduction == Reduction::none ? dloss.reshape({-1, 1}) : dloss;
    if (params.reduction == Reduction::mean) scale = scale / or_one(counted.unpack(*this));
    return (slope * counts * scale).to(dtype);
  }

  SavedTensor logits, labels, class_weights, log_sum_exp, counted;
  CrossEntropyParams params;
  int64_t classes;
  DType dtype;
};

// x (..., C), labels (...), which were checked.
Tensor of_labels(const Tensor& x, const Tensor& labels, const Tensor& class_weights,
                 const CrossEntropyParams& params) {
  const int64_t samples = labels.numel();
  const Tensor flat = x.rank() == 2 ? x : x.reshape({samples, x.size(-1)});
  const Tensor flat_labels = labels.rank() == 1 ? labels : labels.reshape({samples});
  const bool reduced = params.reduction != Reduction::none;

  const TensorOptions wide{.dtype = wide_dtype(x), .device = x.device()};
  Tensor loss = Tensor::empty(reduced ? Shape{} : Shape{samples}, wide);
  const Tensor log_sum_exp = params.log_probabilities ? Tensor() : Tensor::empty({samples}, wide);
  const Tensor counted = Tensor::empty({}, wide);
  run(CrossEntropyForward{.logits = flat,
                          .labels = flat_labels,
                          .class_weights = class_weights,
                          .loss = loss,
                          .log_sum_exp = log_sum_exp,
                          .counted = counted,
                          .loss_params = params});
  record<CrossEntropyNode>({loss}, {flat}, flat, flat_labels, class_weights, log_sum_exp, counted,
                           params);
  return reduced || labels.rank() == 1 ? loss : loss.reshape(labels.shape());
}

void check_smoothing(double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return;
  check::refuse("cross_entropy",
                fmt::format("label_smoothing is {}, wanted 0..1", label_smoothing));
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
  loss::check_class_weights("cross_entropy", {"logits", logits}, options.class_weights);
  const DType wide = wide_dtype(logits);
  Tensor shares = labels.to(wide);
  if (const double s = options.label_smoothing; s > 0) {
    shares = shares * (1 - s) + s / double(logits.size(-1));
  }
  if (options.class_weights.defined()) shares = shares * options.class_weights;
  const Tensor losses = -sum(log_softmax(logits.to(wide)) * shares, {.dims = {-1}});
  return loss::reduced(losses, options.reduction);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options) {
  const FunctionScope scope("cross_entropy");
  if (is_floating(labels.dtype())) return soft_cross_entropy(logits, labels, options);
  loss::check_labels("cross_entropy", {"logits", logits}, labels, options.ignore_index);
  loss::check_class_weights("cross_entropy", {"logits", logits}, options.class_weights);
  check_smoothing(options.label_smoothing);
  return of_labels(logits, labels, options.class_weights,
                   {.label_smoothing = options.label_smoothing,
                    .ignore_index = options.ignore_index,
                    .reduction = options.reduction});
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const NllOptions& options) {
  const FunctionScope scope("nll_loss");
  const check::Argument scores{"log_probabilities", log_probabilities};
  loss::check_labels("nll_loss", scores, labels, options.ignore_index);
  loss::check_class_weights("nll_loss", scores, options.class_weights);
  return of_labels(log_probabilities, labels, options.class_weights,
                   {.ignore_index = options.ignore_index,
                    .reduction = options.reduction,
                    .log_probabilities = true});
}

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Where each sample's label is, (..., C), and whether it is anywhere, (...).
struct LabelPlaces {
  Tensor is_label, found;
  LabelPlaces(const Tensor& labels, int64_t classes)
      : is_label(one_hot(labels, classes, DType::boolean)), found(any(is_label, {.dims = {-1}})) {}

  // What scores (..., C), or weights (C), have there; 0 where the label is nowhere.
  Tensor pick(const Tensor& of, bool keepdim = false) const {
    return sum(where(is_label, of, 0), {.dims = {-1}, .keepdim = keepdim});
  }
};

}  // namespace

Tensor multi_margin_loss(const Tensor& scores, const Tensor& labels,
                         const MultiMarginOptions& options) {
  const FunctionScope scope("multi_margin_loss");
  loss::check_labels("multi_margin_loss", {"scores", scores}, labels, {});
  loss::check_class_weights("multi_margin_loss", {"scores", scores}, options.class_weights);
  if (options.p != 1 && options.p != 2) {
    check::refuse("multi_margin_loss", fmt::format("p is {}, wanted 1 or 2", options.p));
  }
  const Tensor wide = scores.to(wide_dtype(scores));
  const LabelPlaces places(labels, wide.size(-1));
  Tensor excess = relu(wide - places.pick(wide, true) + options.margin);
  if (options.p == 2) excess = square(excess);
  Tensor losses = sum(where(places.is_label, 0, excess), {.dims = {-1}}) / double(wide.size(-1));
  if (options.class_weights.defined()) losses = losses * places.pick(options.class_weights);
  return loss::reduced(where(places.found, losses, nan), options.reduction);
}

// -- probabilities -------------------------------------------------------------------------

namespace {

// An operand that is multiplied by the losses, whose shape is that of x.
void check_factor(const char* function, const Tensor& x, check::Argument factor) {
  if (!factor.tensor.defined()) return;
  check::same_device(function, {"logits", x}, factor);
  check::dtype(function, factor, wide_dtype(x));
  if (broadcast(function, x.shape(), factor.tensor.shape()) == x.shape()) return;
  check::refuse_shape(function, factor, "what broadcasts to " + to_string(x.shape()));
}

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options) {
  const char* const function = "binary_cross_entropy_with_logits";
  const FunctionScope scope(function);
  loss::check_pair(function, {"logits", logits}, {"targets", targets});
  check_factor(function, logits, {"weight", options.weight});
  check_factor(function, logits, {"pos_weight", options.pos_weight});
  if (!options.weight.defined() && !options.pos_weight.defined()) {
    return loss::of_pair(function, logits, targets, {.op = PairLoss::binary}, options.reduction);
  }
  const Tensor x = logits.to(wide_dtype(logits)), target = targets.to(x.dtype());
  // log sigmoid(-x) is log sigmoid(x) - x.
  Tensor log_probability = logsigmoid(x);
  if (options.pos_weight.defined()) {
    log_probability = log_probability * ((options.pos_weight - 1) * target + 1);
  }
  Tensor losses = (1 - target) * x - log_probability;
  if (options.weight.defined()) losses = losses * options.weight;
  return loss::reduced(losses, options.reduction);
}

Tensor focal_loss(const Tensor& logits, const Tensor& targets, const FocalOptions& options) {
  const FunctionScope scope("focal_loss");
  loss::check_pair("focal_loss", {"logits", logits}, {"targets", targets});
  if (!(options.gamma >= 0)) {
    check::refuse("focal_loss", fmt::format("gamma is {}, wanted 0 or more", options.gamma));
  }
  if (!(options.alpha <= 1)) {
    check::refuse("focal_loss", fmt::format("alpha is {}, wanted at most 1", options.alpha));
  }
  const Tensor x = logits.to(wide_dtype(logits)), target = targets.to(x.dtype());
  const Tensor towards = x * affine(target, 2, -1);  // the target's logit
  Tensor losses = -logsigmoid(towards);
  // (1 - p)^gamma by its logarithm: neither p near 1 nor a power of 0 costs anything.
  if (options.gamma > 0) losses = losses * exp(options.gamma * logsigmoid(-towards));
  if (options.alpha >= 0) {
    losses = losses * affine(target, 2 * options.alpha - 1, 1 - options.alpha);
  }
  return loss::reduced(losses, options.reduction);
}

Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, const KlDivOptions& options) {
  const FunctionScope scope("kl_div");
  loss::check_pair("kl_div", {"log_probabilities", log_probabilities}, {"target", target});
  PairLossParams params{.op = options.log_target ? PairLoss::log_divergence : PairLoss::divergence};
  Reduction reduction = options.reduction;
  if (options.batchmean && reduction == Reduction::mean) {
    params.divisor = double(target.rank() == 0 ? 1 : target.size(0));
    reduction = Reduction::sum;
  }
  return loss::of_pair("kl_div", log_probabilities, target, params, reduction);
}

}  // namespace adret
