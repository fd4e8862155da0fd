// Checks of labels and pairs, and the reduction of losses.
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <span>

namespace adret::loss {
namespace {

template <class T>
void check_values(const char* function, const Tensor& labels, int64_t classes,
                  std::optional<int64_t> ignore_index) {
  // Not span(): reading ahead of the kernel makes no computation depend on the host.
  const std::span<const T> values(static_cast<const T*>(labels.data()), size_t(labels.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    if ((values[i] >= 0 && values[i] < classes) || values[i] == ignore_index) continue;
    throw Error(fmt::format("[{}] label {} of sample {} is outside 0..{} ({} classes)", function,
                            values[i], i, classes - 1, classes));
  }
}

}  // namespace

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
  if (labels.dtype() != DType::i32 && labels.dtype() != DType::i64) {
    check::refuse_dtype(function, {"labels", labels}, DType::i64);
  }
  if (x.rank() == 0) check::refuse_shape(function, scores, "(..., C)");
  const Shape wanted = x.shape().without(x.rank() - 1);
  if (wanted != labels.shape()) {
    check::refuse(
        function,
        fmt::format("{} (..., C) are {}, labels {}; wanted one label a sample: {}", scores.name,
                    to_string(x.shape()), to_string(labels.shape()), to_string(wanted)));
  }
  if (!labels.device().is_cpu()) return;  // the kernel notes a wrong label
  const auto check = labels.dtype() == DType::i32 ? check_values<int32_t> : check_values<int64_t>;
  check(function, labels, x.size(-1), ignore_index);
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
