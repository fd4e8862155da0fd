// The fully connected layer.
#include <adret/layers/check.h>
#include <adret/layers/init.h>
#include <adret/layers/linear.h>

namespace adret {

Linear::Linear(int64_t in_features, int64_t out_features, const LinearLayerOptions& options)
    : in_features(at_least(1, in_features, "Linear", "in_features")),
      out_features(at_least(1, out_features, "Linear", "out_features")),
      options(options),
      weight(parameter("weight", Tensor::empty({out_features, in_features}))),
      bias(parameter("bias", options.bias ? Tensor::empty({out_features}) : Tensor())) {
  init::fan_in_uniform_(weight, bias);
}

Tensor Linear::forward(const Tensor& x) {
  return linear(in_dtype_of(weight, x), weight, bias, {.activation = options.activation});
}

}  // namespace adret
