// The formula and its layer.
#include "learnable_swish.h"

#include <adret/autograd/pointwise.h>

namespace {

// Its derivatives come from the formula itself.
struct Formula {
  ADRET_FN auto operator()(auto x, auto beta) const { return x * sigmoid(beta * x); }
};

}  // namespace

LearnableSwish::LearnableSwish(int64_t channels)
    : beta(parameter("beta", adret::Tensor::ones({channels}))) {}

adret::Tensor LearnableSwish::forward(const adret::Tensor& x) {
  return pointwise(Formula{}, x, beta);
}

LearnableSwish LearnableSwish::rebuild() const { return LearnableSwish(beta.value.size(0)); }
