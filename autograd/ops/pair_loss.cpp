// Losses that compare pairs, composed.
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/logic.h>
#include <adret/autograd/ops/loss_parts.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/statistics.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <limits>

namespace adret {
namespace {

Tensor widened(const Tensor& x) { return x.to(wide_dtype(x)); }

// The labels as numbers like x, one for each element of `shape`.
Tensor signs(const char* function, const Tensor& x, const Shape& shape, const Tensor& labels) {
  check::signed_number(function, {"labels", labels});
  check::same_device(function, {"x", x}, {"labels", labels});
  check::shape(function, {"labels", labels}, shape);
  return labels.to(wide_dtype(x));
}

// a where the label is above 0, else b.
Tensor by_sign(const Tensor& signs, const Tensor& a, const Tensor& b) {
  return where(greater(signs, scalar_like(signs, 0)), a, b);
}

void check_vectors(const char* function, check::Argument x) {
  if (x.tensor.rank() == 0) check::refuse_shape(function, x, "(..., C)");
}

Tensor similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  const auto unit = [&](const Tensor& x) {
    const Tensor length = norm(x, 2, {.dims = {options.dim}, .keepdim = true});
    return x / clamp(length, options.epsilon, std::numeric_limits<double>::infinity());
  };
  return sum(unit(a) * unit(b), {.dims = {options.dim}});
}

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineSimilarityOptions& options) {
  const FunctionScope scope("cosine_similarity");
  loss::check_pair("cosine_similarity", {"a", a}, {"b", b});
  a.shape().resolve_dim("cosine_similarity", options.dim);
  check::epsilon("cosine_similarity", options.epsilon);
  return similarity(widened(a), widened(b), options).to(a.dtype());
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& labels,
                             const MarginOptions& options) {
  const FunctionScope scope("cosine_embedding_loss");
  loss::check_pair("cosine_embedding_loss", {"a", a}, {"b", b});
  check_vectors("cosine_embedding_loss", {"a", a});
  const Tensor sign = signs("cosine_embedding_loss", a, a.shape().without(a.rank() - 1), labels);
  const Tensor alike = similarity(widened(a), widened(b), {});
  return loss::reduced(by_sign(sign, 1 - alike, relu(alike - options.margin)), options.reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& labels,
                           const MarginOptions& options) {
  const FunctionScope scope("margin_ranking_loss");
  loss::check_pair("margin_ranking_loss", {"a", a}, {"b", b});
  const Tensor sign = signs("margin_ranking_loss", a, a.shape(), labels);
  const Tensor ahead = sign * (widened(a) - widened(b));
  return loss::reduced(relu(options.margin - ahead), options.reduction);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& labels, const MarginOptions& options) {
  const FunctionScope scope("hinge_embedding_loss");
  check::floating("hinge_embedding_loss", {"x", x});
  const Tensor sign = signs("hinge_embedding_loss", x, x.shape(), labels), wide = widened(x);
  return loss::reduced(by_sign(sign, wide, relu(options.margin - wide)), options.reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& labels, const LossOptions& options) {
  const FunctionScope scope("soft_margin_loss");
  check::floating("soft_margin_loss", {"x", x});
  const Tensor sign = signs("soft_margin_loss", x, x.shape(), labels);
  return loss::reduced(-logsigmoid(sign * widened(x)), options.reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  const FunctionScope scope("triplet_margin_loss");
  loss::check_pair("triplet_margin_loss", {"anchor", anchor}, {"positive", positive});
  loss::check_pair("triplet_margin_loss", {"anchor", anchor}, {"negative", negative});
  check_vectors("triplet_margin_loss", {"anchor", anchor});
  if (!(options.p > 0)) {  // 0 counts differences, which has no slope to learn by
    check::refuse("triplet_margin_loss", fmt::format("p is {}, wanted more than 0", options.p));
  }
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return norm(a - b + options.epsilon, options.p, {.dims = {-1}});
  };
  const Tensor a = widened(anchor), p = widened(positive), n = widened(negative);
  Tensor to_negative = distance(a, n);
  if (options.swap) to_negative = minimum(to_negative, distance(p, n));
  return loss::reduced(relu(distance(a, p) - to_negative + options.margin), options.reduction);
}

}  // namespace adret
