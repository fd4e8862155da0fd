// Checks of labels and pairs, and the reduction of losses.
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <fmt/core.h>

namespace adret::loss {

void check_pair(const char* function, check::Argument a, check::Argument b) {
  check::alike(function, a, b);
  check::floating(function, a);
  if (a.tensor.shape() == b.tensor.shape()) return;
  check::refuse(function,
                fmt::format("{} is {}, {} {}; shapes must be equal, reshape one of them", a.name,
                            to_string(a.tensor.shape()), b.name, to_string(b.tensor.shape())));
}

void check_labels(const char* function, check::Argument scores, const Tensor& labels,
                  std::optional<int64_t> ignore_index) {
  const Tensor& x = scores.tensor;
  check::floating(function, scores);
  check::same_device(function, scores, {"labels", labels});
  check::integer(function, {"labels", labels});
  if (x.rank() == 0) check::refuse_shape(function, scores, "(..., C)");
  const Shape wanted = x.shape().without(x.rank() - 1);
  if (wanted != labels.shape()) {
    check::refuse(
        function,
        fmt::format("{} (..., C) are {}, labels {}; wanted one label a sample: {}", scores.name,
                    to_string(x.shape()), to_string(labels.shape()), to_string(wanted)));
  }
  const int64_t classes = x.size(-1);
  if (const auto wrong = check::first_outside(labels, classes, ignore_index)) {
    throw Error(fmt::format("[{}] label {} of sample {} is outside 0..{} ({} classes)", function,
                            wrong->index, wrong->place, classes - 1, classes));
  }
}

void check_class_weights(const char* function, check::Argument scores, const Tensor& weights) {
  const check::Argument argument{"class_weights", weights};
  check::same_device(function, scores, argument);
  check::shape(function, argument, {scores.tensor.size(-1)});
  check::dtype(function, argument, wide_dtype(scores.tensor));
  if (!weights.defined() || !weights.requires_grad()) return;
  throw Error(fmt::format(
      "[{}] class_weights ask for a gradient, which they do not get; detach them", function));
}

Tensor reduced(const Tensor& losses, kernels::Reduction reduction) {
  switch (reduction) {
    case kernels::Reduction::none: return losses;
    case kernels::Reduction::sum: return sum(losses);
    case kernels::Reduction::mean: break;
  }
  return mean(losses);
}

}  // namespace adret::loss
