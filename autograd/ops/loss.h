// Loss functions. Shapes must be equal where a broadcast would hide a mistake.
#pragma once

#include <adret/core/kernels/loss.h>
#include <adret/core/tensor.h>

namespace adret {

using kernels::Reduction;

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

struct MseOptions {
  Reduction reduction = Reduction::mean;
};

// (prediction - target)^2; equal shapes, or ShapeError.
Tensor mse_loss(const Tensor& prediction, const Tensor& target, const MseOptions& options = {});

}  // namespace adret
