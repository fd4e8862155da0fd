// The formulas, and the layer around the second. Compiled by nvcc where there is one.
#include "activations.h"

#include <adret/autograd/pointwise.h>

namespace custom_layer {
namespace {

struct Swish {
  ADRET_FN auto operator()(auto x) const { return x * sigmoid(x); }
};

struct SlopedSwish {
  ADRET_FN auto operator()(auto x, auto beta) const { return x * sigmoid(beta * x); }
};

}  // namespace

Tensor swish(const Tensor& x) { return pointwise(Swish{}, x); }

LearnableSwish::LearnableSwish(int64_t channels)
    : channels(channels), beta(parameter("beta", Tensor::ones({channels}))) {}

Tensor LearnableSwish::forward(const Tensor& x) { return pointwise(SlopedSwish{}, x, beta); }

}  // namespace custom_layer
