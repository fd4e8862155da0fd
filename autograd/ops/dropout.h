// Dropout (Srivastava et al. 2014).
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// In training zeroes each element with probability p (0..1) and scales the rest by 1 / (1 - p); the
// identity otherwise. The mask comes from the dropout stream of core/random.h.
Tensor dropout(const Tensor& x, double p, bool training);

// Whole channels of each sample: one number for all places of x (N, ..., C) (Tompson et al. 2015).
Tensor dropout2d(const Tensor& x, double p, bool training);
// For networks of selu: what is dropped becomes its lowest value, and all is scaled and shifted so
// that a mean of 0 and a variance of 1 stay (Klambauer et al. 2017); 0 for p = 1. Of elements, and
// of whole channels of each sample.
Tensor alpha_dropout(const Tensor& x, double p, bool training);
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training);
// Whole samples of x (N, ...), for a branch beside a residual (Huang et al. 2016).
Tensor drop_path(const Tensor& x, double p, bool training);

}  // namespace adret
