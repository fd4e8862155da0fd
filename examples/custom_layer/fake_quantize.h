// Rounding to few bits that can be trained through, and a linear layer with it.
#pragma once

#include <adret/layers/module.h>

namespace custom_layer {

using namespace adret;

// x on the nearest of 2^bits - 1 evenly spaced numbers from -range to range, as an integer of so
// many bits times range / (2^(bits - 1) - 1) would hold it (Jacob et al. 2018, arXiv:1712.05877).
// The range is a tensor of one element above 0. Rounding has no slope to learn by, so the gradient
// goes straight through it (Bengio, Léonard and Courville 2013, arXiv:1308.3432): to x within the
// range, and beyond to the range, which can be learnt thus (Choi et al. 2018, arXiv:1805.06085).
// Throws Error for less than 2 bits.
Tensor fake_quantize(const Tensor& x, const Tensor& range, int bits);

struct FakeQuantLinearOptions {
  int bits = 8;
  double range = 4;  // of inputs, to begin with; it is learnt
};

// A linear layer (..., in_features) -> (..., out_features) that computes with the numbers that
// integers of few bits would give it. The weight's range is its largest element.
class FakeQuantLinear : public Layer<FakeQuantLinear> {
 public:
  FakeQuantLinear(int64_t in_features, int64_t out_features,
                  const FakeQuantLinearOptions& options = {});
  Tensor forward(const Tensor& x);
  FakeQuantLinear rebuild() const { return FakeQuantLinear(in_features, out_features, options); }

  const int64_t in_features, out_features;
  const FakeQuantLinearOptions options;
  Parameter& weight;
  Parameter& bias;
  Parameter& range;
};

}  // namespace custom_layer
