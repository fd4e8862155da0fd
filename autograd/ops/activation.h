// Activation functions, elementwise on floating tensors. NaN stays NaN; at a kink the derivative is
// the one of the flat side where nothing else is said. At the infinities values and derivatives are
// what they tend to (silu(-inf) is 0), where PyTorch's are NaN for some. Each but prelu and glu is
// one kernel each way, and all can be differentiated again.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

Tensor relu(const Tensor& x);     // max(x, 0); derivative 0 at 0
Tensor relu6(const Tensor& x);    // min(max(x, 0), 6); derivative 0 at 0 and 6
Tensor sigmoid(const Tensor& x);  // 1 / (1 + exp(-x))
Tensor tanh(const Tensor& x);
Tensor gelu(const Tensor& x);  // x * Phi(x), exact (Hendrycks and Gimpel 2016)
Tensor gelu_tanh(
    const Tensor& x);          // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), its approximation
Tensor silu(const Tensor& x);  // x * sigmoid(x) (Elfwing et al. 2017)
Tensor mish(const Tensor& x);  // x * tanh(softplus(x)) (Misra 2019)
Tensor softsign(const Tensor& x);     // x / (1 + |x|)
Tensor logsigmoid(const Tensor& x);   // log(sigmoid(x)), accurate in its tail
Tensor hardsigmoid(const Tensor& x);  // min(max(x / 6 + 1/2, 0), 1)
Tensor hardswish(
    const Tensor& x);  // x * hardsigmoid(x) (Howard et al. 2019); derivative 0 at -3, 1 at 3
// min(max(x, low), high), which is clamp; derivative 1 at the ends, where PyTorch's is 0.
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);

// log(1 + exp(beta x)) / beta, and x where beta x is beyond the threshold. Throws ShapeError for
// beta 0.
struct SoftplusOptions {
  double beta = 1, threshold = 20;
};
Tensor softplus(const Tensor& x, const SoftplusOptions& options = {});
// x where x > 0, else alpha (exp(x) - 1) (Clevert et al. 2015); derivative alpha at 0.
Tensor elu(const Tensor& x, double alpha = 1);
// elu with the alpha, and times the scale, that keep mean 0 and variance 1 (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
// x where x > 0, else slope x; derivative `slope` at 0.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// leaky_relu with a learned slope: one for all, or one for each channel, the last dimension of x
// (He et al. 2015). Throws ShapeError unless weight is (1) or (C).
Tensor prelu(const Tensor& x, const Tensor& weight);
// The first half of a dimension times the sigmoid of its second half (Dauphin et al. 2016). Throws
// ShapeError for an odd size.
Tensor glu(const Tensor& x, int dim = -1);

}  // namespace adret
