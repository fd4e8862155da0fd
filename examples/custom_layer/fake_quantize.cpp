// The quantiser's node, which lets gradients straight through. Compiled by nvcc where there is one.
#include "fake_quantize.h"

#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/pointwise.h>
#include <adret/autograd/saved_tensor.h>
#include <adret/core/scope.h>
#include <adret/layers/init.h>

#include <cmath>
#include <string>

namespace custom_layer {
namespace {

struct Quantize {
  double levels;  // on either side of 0

  ADRET_FN auto operator()(auto x, auto range) const {
    return round(clamp(x / range, -1, 1) * levels) * (range / levels);
  }
};

// The gradients of clamp(x, -range, range), as if there were no rounding.
struct Within {
  ADRET_FN auto operator()(auto x, auto range, auto dy) const {
    return select(abs(x) <= range, dy, 0);
  }
};
struct Beyond {
  ADRET_FN auto operator()(auto x, auto range, auto dy) const {
    return select(x > range, dy, select(x < -range, -dy, 0));
  }
};

class StraightThrough : public Node {
 public:
  StraightThrough(const Tensor& x, const Tensor& range) : x_(x), range_(range) {}
  const char* name() const override { return "fake_quantize"; }

  std::vector<Tensor> backward(const std::vector<Tensor>& grads) override {
    const Tensor &x = x_.unpack(*this), &range = range_.unpack(*this), &dy = grads[0];
    Tensor dx, drange;
    if (needs_gradient(0)) dx = pointwise(Within{}, x, range, dy);
    if (needs_gradient(1)) drange = sum_to(pointwise(Beyond{}, x, range, dy), range.shape());
    return {dx, drange};
  }

 private:
  SavedTensor x_, range_;
};

}  // namespace

Tensor fake_quantize(const Tensor& x, const Tensor& range, int bits) {
  if (bits < 2) throw Error("[fake_quantize] wanted 2 bits or more, got " + std::to_string(bits));
  const FunctionScope scope("fake_quantize");  // the name in errors and profiles
  Tensor y;
  {
    const NoGrad off;  // the derivative is the node's, not the formula's
    y = pointwise(Quantize{std::exp2(bits - 1) - 1}, x, range);
  }
  record<StraightThrough>({y}, {x, range}, x, range);
  return y;
}

FakeQuantLinear::FakeQuantLinear(int64_t in_features, int64_t out_features,
                                 const FakeQuantLinearOptions& options)
    : in_features(in_features),
      out_features(out_features),
      options(options),
      weight(parameter("weight", Tensor::empty({out_features, in_features}))),
      bias(parameter("bias", Tensor::empty({out_features}))),
      range(parameter("range", Tensor::full({}, options.range))) {
  init::fan_in_uniform_(weight, bias);
}

Tensor FakeQuantLinear::forward(const Tensor& x) {
  const Tensor largest = max(abs(weight.value.detach()));
  return linear(fake_quantize(x, range, options.bits), fake_quantize(weight, largest, options.bits),
                bias);
}

}  // namespace custom_layer
