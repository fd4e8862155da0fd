// Activation functions that are composed of others: shrinkages and thresholds, elementwise on
// floating tensors. NaN stays NaN; all can be differentiated again.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// x where x > 0, else alpha (exp(x / alpha) - 1), whose slope has no jump at 0 (Barron 2017).
// Throws ShapeError unless alpha is above 0.
Tensor celu(const Tensor& x, double alpha = 1);
// x where x > limit, else `value`; derivative 0 at the limit.
Tensor threshold(const Tensor& x, double limit, double value);
// x where |x| > lambda, else 0; derivative 0 at the ends.
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
// x moved by lambda towards 0, and 0 where |x| <= lambda; derivative 0 at the ends. Throws
// ShapeError for a negative lambda.
Tensor softshrink(const Tensor& x, double lambda = 0.5);
Tensor tanhshrink(const Tensor& x);  // x - tanh(x)

}  // namespace adret
