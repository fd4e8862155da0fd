// Moments, norms and logarithms of sums over dimensions, of floating tensors; which dimensions is
// said as in ops/reduce.h. Computed in f32 for 16-bit floats and rounded at the end. NaN stays NaN.
#pragma once

#include <adret/autograd/ops/reduce.h>
#include <adret/core/tensor.h>

namespace adret {

// `correction` is taken off the number of elements that the sum of squares is divided by: 1 for a
// sample's unbiased variance, 0 for a population's. A divisor of 0 or less gives NaN or infinity.
struct VarianceOptions {
  std::vector<int> dims = {};  // none: all
  bool keepdim = false;
  double correction = 1;
};
Tensor var(const Tensor& x, const VarianceOptions& options = {});
Tensor stddev(const Tensor& x, const VarianceOptions& options = {});  // derivative 0 where it is 0

// log(sum(exp(x))); the maximum is taken off first. -infinity for no elements.
Tensor logsumexp(const Tensor& x, const ReduceOptions& options = {});

// (sum |x|^p)^(1/p); the largest |x| for p = infinity, the number of elements that are not 0 for p
// = 0, which has no gradient. At elements that are 0 the derivative is 0. Throws ShapeError for p <
// 0.
Tensor norm(const Tensor& x, double p = 2, const ReduceOptions& options = {});

}  // namespace adret
