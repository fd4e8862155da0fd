// The fully connected layer.
#pragma once

#include <adret/autograd/ops/matmul.h>
#include <adret/layers/module.h>

namespace adret {

struct LinearLayerOptions {
  bool bias = true;
  Activation activation = Activation::none;  // fused
};

// activation(x weight^T + bias): (..., in_features) -> (..., out_features). The weight
// (out_features, in_features) and bias start as PyTorch's, see init::fan_in_uniform_.
class Linear : public Layer<Linear> {
 public:
  // Throws Error for sizes below 1.
  Linear(int64_t in_features, int64_t out_features, const LinearLayerOptions& options = {});
  Tensor forward(const Tensor& x);
  Linear rebuild() const { return Linear(in_features, out_features, options); }

  const int64_t in_features, out_features;
  const LinearLayerOptions options;
  Parameter& weight;
  Parameter& bias;
};

}  // namespace adret
