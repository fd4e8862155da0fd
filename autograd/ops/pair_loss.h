// Losses that compare pairs: which of two is larger, what is alike and what is not. Shapes must be
// equal, or ShapeError. Losses are computed, and given, in f32, or f64 for f64 operands. Labels are
// 1 or -1, of any dtype that is a number; what is not above 0 counts as -1.
#pragma once

#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/tensor.h>

namespace adret {

struct CosineSimilarityOptions {
  int dim = -1;           // along which vectors lie; it is gone from the result
  double epsilon = 1e-8;  // shorter vectors count as this long
};
// a b / (|a| |b|), in the dtype of a and b.
Tensor cosine_similarity(const Tensor& a, const Tensor& b,
                         const CosineSimilarityOptions& options = {});

struct MarginOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};
// Of vectors (..., C) and labels (...): 1 - cosine_similarity for those that should be alike, else
// max(0, cosine_similarity - margin).
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& labels,
                             const MarginOptions& options = {});
// max(0, margin - label (a - b)): a should be the larger for a label of 1.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& labels,
                           const MarginOptions& options = {});
// Of distances x: x itself for those that should be alike, else max(0, margin - x).
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& labels,
                            const MarginOptions& options = {.margin = 1});
// log(1 + exp(-label x)), finite for all finite x.
Tensor soft_margin_loss(const Tensor& x, const Tensor& labels, const LossOptions& options = {});

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;           // of the distance's norm; above 0
  double epsilon = 1e-6;  // added to differences
  bool swap = false;  // takes the positive for the anchor where it is the nearer to the negative
  Reduction reduction = Reduction::mean;
};
// max(0, margin + |anchor - positive| - |anchor - negative|) of vectors (..., C) (Schroff et al.
// 2015; swap: Balntas et al. 2016).
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

}  // namespace adret
