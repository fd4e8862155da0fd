// Formulas that nvcc compiles, for pointwise_test.cpp, which the C++ compiler does.
#include "tests/cuda/pointwise_kernels.h"

#include <adret/autograd/pointwise.h>

namespace adret::test {
namespace {

struct Swish {
  ADRET_FN auto operator()(auto x) const { return x / (1 + exp(-x)); }
};

struct Gate {
  float scale;
  template <class T>
  ADRET_FN T operator()(T x, T gate) const {
    return x * sigmoid(scale * gate) + max(x, 0.25 * gate);
  }
};

struct Mixed {
  template <class T>
  ADRET_FN T operator()(T a, T b, T c, T d) const {
    return select(a < b, tanh(a) * c, erf(b) + pow(2 + d * d, 1.5)) / (2 + sin(a + d));
  }
};

struct Polar {
  ADRET_FN auto operator()(auto radius, auto angle) const {
    return std::tuple(radius * cos(angle), radius * sin(angle));
  }
};

struct EveryFunction {
  template <class T>
  ADRET_FN T operator()(T x) const {  // x in (0, 1)
    return exp(x) + exp2(x) + expm1(x) + log(x) + log2(x) + log1p(x) + sqrt(x) + rsqrt(x) + sin(x) +
           cos(x) + tan(x) + asin(x) + acos(x) + atan(x) + sinh(x) + cosh(x) + tanh(x) +
           sigmoid(x) + erf(x) + erfc(x) + abs(x) + floor(x) + ceil(x) + round(x) + trunc(x) +
           clamp(x, 0.25, 0.75) + min(x, 0.5) + pow(x, x) + pow(x, 3) + pow(2, x);
  }
};

}  // namespace

Tensor swish(const std::vector<Tensor>& in) { return pointwise(Swish{}, in[0]); }
Tensor gate(const std::vector<Tensor>& in) { return pointwise(Gate{1.5f}, in[0], in[1]); }
Tensor mixed(const std::vector<Tensor>& in) {
  return pointwise(Mixed{}, in[0], in[1], in[2], in[3]);
}
Tensor every_function(const std::vector<Tensor>& in) { return pointwise(EveryFunction{}, in[0]); }
std::array<Tensor, 2> polar(const Tensor& radius, const Tensor& angle) {
  return pointwise(Polar{}, radius, angle);
}

}  // namespace adret::test
