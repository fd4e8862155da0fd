// Losses.
#pragma once

#include "function_cases.h"

namespace adret::bench {

struct LossCases : FunctionCases {
  LossCases(int64_t n, const TensorOptions& options) : FunctionCases{n, options} {
    const Tensor classes = labels(n, 1000), target = constant(images(32, 64));
    add("cross_entropy/1000", {{n, 1000}}, [=](Inputs x) { return cross_entropy(x[0], classes); });
    add("nll_loss/1000", {{n, 1000}}, [=](Inputs x) { return nll_loss(x[0], classes); });
    unary("mse_loss", [=](const Tensor& x) { return mse_loss(x, target); });
    unary("l1_loss", [=](const Tensor& x) { return l1_loss(x, target); });
    unary("smooth_l1_loss", [=](const Tensor& x) { return smooth_l1_loss(x, target); });
    unary("bce_with_logits", [=, target = sigmoid(target)](const Tensor& x) {
      return binary_cross_entropy_with_logits(x, target);
    });
    unary("kl_div",
          [=, target = softmax(target, -1)](const Tensor& x) { return kl_div(x, target); });
    of_pairs();
  }

  void of_pairs() {
    const Tensor target = constant(images(32, 64)), odds = sigmoid(target);
    const Tensor signs = sign(target), row_signs = sign(constant({n * 197}));
    unary("huber_loss", [=](const Tensor& x) { return huber_loss(x, target); });
    unary("poisson_nll_loss", [=](const Tensor& x) { return poisson_nll_loss(x, odds); });
    unary("gaussian_nll_loss", [=](const Tensor& x) { return gaussian_nll_loss(x, target, odds); });
    unary("hinge_embedding_loss", [=](const Tensor& x) { return hinge_embedding_loss(x, signs); });
    unary("soft_margin_loss", [=](const Tensor& x) { return soft_margin_loss(x, signs); });
    const Shape rows{n * 197, 192};
    add("cosine_similarity", {rows, rows}, [](Inputs x) { return cosine_similarity(x[0], x[1]); });
    add("cosine_embedding_loss", {rows, rows},
        [=](Inputs x) { return cosine_embedding_loss(x[0], x[1], row_signs); });
    add("triplet_margin_loss", {rows, rows, rows},
        [](Inputs x) { return triplet_margin_loss(x[0], x[1], x[2]); });
    add("multi_margin_loss", {{n, 1000}},
        [classes = labels(n, 1000)](Inputs x) { return multi_margin_loss(x[0], classes); });
  }
};

}  // namespace adret::bench
