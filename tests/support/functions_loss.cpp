// Cases of functions that are losses.
#include <adret/autograd/ops/create.h>
#include <adret/autograd/ops/likelihood_loss.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/pair_loss.h>
#include <adret/autograd/ops/regression_loss.h>

#include "tests/support/function_lists.h"

namespace adret::test {
namespace {

using Inputs = std::vector<Tensor>;

// In the dtype of `like`.
Tensor numbers(const Tensor& like, const std::vector<double>& values, const Shape& shape) {
  return Tensor::from(values, shape).to(like.dtype());
}
Tensor weights(const Tensor& like) { return numbers(like, {0.5, 2, 1.25, 0.75}, {4}); }
Tensor signs(const Tensor& like) { return numbers(like, {1, -1, -1, 1}, {4}); }

// 0, 1, 1, 0, 1, 1 ...
Tensor hard_targets(const Tensor& like) {
  std::vector<double> values;
  for (int64_t i = 0; i < like.numel(); ++i) values.push_back(i % 3 == 0 ? 0 : 1);
  return numbers(like, values, like.shape());
}

template <class Options>
Options with(Options options, Reduction reduction) {
  options.reduction = reduction;
  return options;
}

// One case, with its options.
template <class Options>
FunctionCase two(const char* name, Tensor (*function)(const Tensor&, const Tensor&, const Options&),
                 const Options& options) {
  return {name, [=](const Inputs& in) { return function(in[0], in[1], options); }};
}

FunctionCase focal(const char* name, const FocalOptions& options) {
  return {name, [=](const Inputs& in) { return focal_loss(in[0], hard_targets(in[0]), options); }};
}
FunctionCase cosine(const char* name, Reduction reduction) {
  return {name, [=](const Inputs& in) {
            return cosine_embedding_loss(in[0], in[1], signs(in[0]),
                                         {.margin = -0.3, .reduction = reduction});
          }};
}
FunctionCase ranking(const char* name, Reduction reduction) {
  return {name, [=](const Inputs& in) {
            return margin_ranking_loss(in[0], in[1], signs(in[0]),
                                       {.margin = 0.25, .reduction = reduction});
          }};
}
FunctionCase hinge(const char* name, Reduction reduction) {
  return {name, [=](const Inputs& in) {
            return hinge_embedding_loss(in[0], signs(in[0]),
                                        {.margin = 1.25, .reduction = reduction});
          }};
}
FunctionCase soft_margin(const char* name, Reduction reduction) {
  return {name, [=](const Inputs& in) {
            return soft_margin_loss(in[0], signs(in[0]), {.reduction = reduction});
          }};
}
FunctionCase triplet(const char* name, const TripletMarginOptions& options) {
  return {name,
          [=](const Inputs& in) { return triplet_margin_loss(in[0], in[1], in[2], options); }};
}

constexpr Reduction none = Reduction::none, total = Reduction::sum, average = Reduction::mean;

std::vector<FunctionCase> classification_cases() {
  const BinaryCrossEntropyOptions binary;
  return {
      two("nll_loss", nll_loss, NllOptions{}),
      two("nll_loss/sum", nll_loss, with(NllOptions{}, total)),
      two("nll_loss/none", nll_loss, with(NllOptions{}, none)),
      two("nll_loss/dims", nll_loss, NllOptions{}),
      {"nll_loss/weights",
       [](const Inputs& in) {
         return nll_loss(in[0], in[1], {.ignore_index = 0, .class_weights = weights(in[0])});
       }},
      {"nll_loss/ignored",
       [](const Inputs& in) {
         return nll_loss(in[0], in[1],
                         {.ignore_index = 3, .reduction = none, .class_weights = weights(in[0])});
       }},
      two("multi_margin_loss", multi_margin_loss, MultiMarginOptions{}),
      two("multi_margin_loss/sum", multi_margin_loss, with(MultiMarginOptions{}, total)),
      two("multi_margin_loss/none", multi_margin_loss, with(MultiMarginOptions{}, none)),
      {"multi_margin_loss/squares",
       [](const Inputs& in) {
         return multi_margin_loss(in[0], in[1],
                                  {.p = 2, .margin = 0.5, .class_weights = weights(in[0])});
       }},
      two("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits, binary),
      two("binary_cross_entropy_with_logits/sum", binary_cross_entropy_with_logits,
          with(binary, total)),
      two("binary_cross_entropy_with_logits/none", binary_cross_entropy_with_logits,
          with(binary, none)),
      {"binary_cross_entropy_with_logits/weights",
       [](const Inputs& in) {
         return binary_cross_entropy_with_logits(
             in[0], in[1],
             {.weight = numbers(in[0], {1, 0, 2}, {3, 1}), .pos_weight = weights(in[0])});
       }},
      {"binary_cross_entropy_with_logits/tails",
       [](const Inputs& in) {
         return binary_cross_entropy_with_logits(in[0], numbers(in[0], {0, 1, 0, 1}, {4}),
                                                 {.reduction = none});
       }},
      focal("focal_loss", {}),
      focal("focal_loss/sum", {.reduction = total}),
      focal("focal_loss/none", {.reduction = none}),
      focal("focal_loss/plain", {.alpha = -1, .gamma = 0}),
      focal("focal_loss/gamma", {.alpha = 0.75, .gamma = 0.5}),
      two("kl_div", kl_div, KlDivOptions{}),
      two("kl_div/sum", kl_div, with(KlDivOptions{}, total)),
      two("kl_div/none", kl_div, with(KlDivOptions{}, none)),
      two("kl_div/batchmean", kl_div, KlDivOptions{.batchmean = true}),
      two("kl_div/log_target", kl_div, KlDivOptions{.log_target = true, .batchmean = true}),
      {"kl_div/zeros",
       [](const Inputs& in) {
         return kl_div(in[0], numbers(in[0], {0, 0.25, 0.75}, {3}), {.reduction = none});
       }},
  };
}

std::vector<FunctionCase> cross_entropy_cases() {
  const auto weighted = [](const char* name, const CrossEntropyOptions& options) {
    return FunctionCase{name, [=](const Inputs& in) {
                          CrossEntropyOptions all = options;
                          all.class_weights = weights(in[0]);
                          return cross_entropy(in[0], in[1], all);
                        }};
  };
  return {
      two("cross_entropy", cross_entropy, CrossEntropyOptions{}),
      two("cross_entropy/sum", cross_entropy, with(CrossEntropyOptions{}, total)),
      two("cross_entropy/none", cross_entropy, with(CrossEntropyOptions{}, none)),
      weighted("cross_entropy/weights", {.label_smoothing = 0.1, .ignore_index = 0}),
      two("cross_entropy/smoothed", cross_entropy,
          CrossEntropyOptions{.label_smoothing = 0.3, .reduction = none}),
      two("cross_entropy/dims", cross_entropy, CrossEntropyOptions{}),
      weighted("cross_entropy/shares", {.label_smoothing = 0.2}),
  };
}

std::vector<FunctionCase> regression_cases() {
  return {
      two("mse_loss", mse_loss, LossOptions{}),
      two("mse_loss/sum", mse_loss, LossOptions{total}),
      two("mse_loss/none", mse_loss, LossOptions{none}),
      two("l1_loss", l1_loss, LossOptions{}),
      two("l1_loss/sum", l1_loss, LossOptions{total}),
      two("l1_loss/none", l1_loss, LossOptions{none}),
      two("smooth_l1_loss", smooth_l1_loss, SmoothL1Options{}),
      two("smooth_l1_loss/sum", smooth_l1_loss, with(SmoothL1Options{}, total)),
      two("smooth_l1_loss/none", smooth_l1_loss, with(SmoothL1Options{}, none)),
      two("smooth_l1_loss/beta", smooth_l1_loss, SmoothL1Options{.beta = 0.5}),
      two("smooth_l1_loss/zero", smooth_l1_loss, SmoothL1Options{.beta = 0}),
      two("huber_loss", huber_loss, HuberOptions{}),
      two("huber_loss/sum", huber_loss, with(HuberOptions{}, total)),
      two("huber_loss/none", huber_loss, with(HuberOptions{}, none)),
      two("huber_loss/delta", huber_loss, HuberOptions{.delta = 0.7}),
  };
}

std::vector<FunctionCase> pair_cases() {
  return {
      two("cosine_similarity", cosine_similarity, CosineSimilarityOptions{}),
      two("cosine_similarity/dim", cosine_similarity,
          CosineSimilarityOptions{.dim = 0, .epsilon = 1e-3}),
      cosine("cosine_embedding_loss", average),
      cosine("cosine_embedding_loss/sum", total),
      cosine("cosine_embedding_loss/none", none),
      ranking("margin_ranking_loss", average),
      ranking("margin_ranking_loss/sum", total),
      ranking("margin_ranking_loss/none", none),
      hinge("hinge_embedding_loss", average),
      hinge("hinge_embedding_loss/sum", total),
      hinge("hinge_embedding_loss/none", none),
      soft_margin("soft_margin_loss", average),
      soft_margin("soft_margin_loss/sum", total),
      soft_margin("soft_margin_loss/none", none),
      triplet("triplet_margin_loss", {}),
      triplet("triplet_margin_loss/sum", {.reduction = total}),
      triplet("triplet_margin_loss/none", {.reduction = none}),
      triplet("triplet_margin_loss/swap", {.margin = 2, .p = 3, .swap = true}),
  };
}

FunctionCase gaussian(const char* name, const GaussianNllOptions& options) {
  return {name, [=](const Inputs& in) { return gaussian_nll_loss(in[0], in[1], in[2], options); }};
}

std::vector<FunctionCase> likelihood_cases() {
  constexpr Reduction total = Reduction::sum, none = Reduction::none;
  return {
      two<PoissonNllOptions>("poisson_nll_loss", poisson_nll_loss, {}),
      two<PoissonNllOptions>("poisson_nll_loss/sum", poisson_nll_loss, {.reduction = total}),
      two<PoissonNllOptions>("poisson_nll_loss/none", poisson_nll_loss, {.reduction = none}),
      two<PoissonNllOptions>("poisson_nll_loss/full", poisson_nll_loss,
                             {.full = true, .reduction = none}),
      two<PoissonNllOptions>("poisson_nll_loss/rates", poisson_nll_loss,
                             {.log_input = false, .epsilon = 1e-3}),
      gaussian("gaussian_nll_loss", {}),
      gaussian("gaussian_nll_loss/sum", {.reduction = total}),
      gaussian("gaussian_nll_loss/none", {.reduction = none}),
      gaussian("gaussian_nll_loss/full", {.full = true, .epsilon = 1e-3}),
      gaussian("gaussian_nll_loss/small", {.epsilon = 1, .reduction = none}),
  };
}

}  // namespace

std::vector<FunctionCase> loss_cases() {
  std::vector<FunctionCase> list = classification_cases();
  for (const auto& part :
       {cross_entropy_cases(), regression_cases(), pair_cases(), likelihood_cases()}) {
    list.insert(list.end(), part.begin(), part.end());
  }
  return list;
}

}  // namespace adret::test
