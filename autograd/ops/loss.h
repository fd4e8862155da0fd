// Losses of classification. Like all losses they are computed, and given, in f32, or f64 for f64
// operands; can be differentiated again; and demand equal shapes where a broadcast would hide a
// mistake.
#pragma once

#include <adret/core/kernels/loss.h>
#include <adret/core/tensor.h>

namespace adret {

using kernels::Reduction;  // none gives the loss of each element or sample

struct CrossEntropyOptions {
  double label_smoothing = 0;   // in 0..1 (Szegedy et al. 2016)
  int64_t ignore_index = -100;  // samples with this label count for nothing
  Reduction reduction = Reduction::mean;
  Tensor class_weights = {};  // (C), f32 or f64 for f64 logits; undefined: all 1
};

// -log softmax(logits)[label]: logits (..., C), labels (...) i32 or i64. The mean is over the
// samples that count; when none does, loss and gradient are 0. Throws ShapeError for shapes and
// Error for a label outside 0..C-1, naming the sample.
// With class weights a sample's loss is times that of its class, and the mean is divided by their
// sum over the samples; with label smoothing each class's term is times its own. They get no
// gradient: Error if they ask for one. Floating labels (..., C) are shares of the classes, as mixup
// makes them: -sum_c labels_c log softmax(logits)_c, of which all count.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options = {});

struct NllOptions {
  int64_t ignore_index = -100;  // samples with this label count for nothing
  Reduction reduction = Reduction::mean;
  Tensor class_weights = {};  // as of cross_entropy
};

// -log_probabilities[label]: cross_entropy of what log_softmax gives, with the same rules for
// labels (...), class weights and the mean.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                const NllOptions& options = {});

struct BinaryCrossEntropyOptions {
  // Both of loss's dtype and broadcast to the logits' shape, or undefined: of an element's loss,
  // and of the part of it that counts for targets of 1.
  Tensor weight = {}, pos_weight = {};
  Reduction reduction = Reduction::mean;
};

// -(target log sigmoid(x) + (1 - target) log sigmoid(-x)), finite for all finite logits x; targets
// in 0..1. Equal shapes, or ShapeError.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options = {});

struct FocalOptions {
  double alpha = 0.25;  // weight of targets of 1, others have 1 - alpha; below 0: none
  double gamma = 2;     // the power by which easy ones count less; at least 0
  Reduction reduction = Reduction::mean;
};

// -alpha_t (1 - p)^gamma log p with p the sigmoid's probability of the target, which is 0 or 1 (Lin
// et al. 2017). Equal shapes, or ShapeError.
Tensor focal_loss(const Tensor& logits, const Tensor& targets, const FocalOptions& options = {});

struct KlDivOptions {
  bool log_target = false;  // targets are logarithms, too
  bool batchmean = false;   // the mean is over the first dimension: that of the divergences
  Reduction reduction = Reduction::mean;
};

// target (log target - log_probabilities), the terms of the Kullback-Leibler divergence of the
// probabilities from the target; 0 for a target of 0. Equal shapes, or ShapeError.
Tensor kl_div(const Tensor& log_probabilities, const Tensor& target,
              const KlDivOptions& options = {});

struct MultiMarginOptions {
  int p = 1;  // or 2
  double margin = 1;
  Reduction reduction = Reduction::mean;
  Tensor class_weights = {};  // as of cross_entropy, but the mean is over the samples
};

// sum over the other classes c of max(0, margin - x[label] + x[c])^p / C: the hinge loss of several
// classes; scores (..., C), labels (...) as of cross_entropy.
Tensor multi_margin_loss(const Tensor& scores, const Tensor& labels,
                         const MultiMarginOptions& options = {});

}  // namespace adret
