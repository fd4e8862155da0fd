// Formulas of random shapes.
#include <adret/autograd/pointwise.h>
#include <adret/core/formula/kernel.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "tests/support/random_case.h"

namespace adret {
namespace {

using namespace test;

struct Blend {
  float weight;
  template <class T>
  ADRET_FN T operator()(T a, T b, T c) const {
    return weight * a * tanh(b) + (1 - weight) * exp(c * 0.5) / (1 + b * b);
  }
};

TEST(PointwiseProperties, ThreeOperandsThatBroadcast) {
  for_random_cases("pointwise", [](Draw& draw) {
    const Shape all = draw.shape(0, 5);
    Inputs in = {draw.numbers(draw.stretched_to(all)), draw.numbers(draw.stretched_to(all)),
                 draw.numbers(draw.stretched_to(all))};
    const size_t full = size_t(draw.integer(0, 2));
    in[full] = draw.numbers(all);
    const Blend formula{draw.chance() ? 0.25f : 0.75f};
    const auto call = [&](const Inputs& x) { return pointwise(formula, x[0], x[1], x[2]); };

    const DType dtype = draw.wide();
    const Array a = in[0], b = in[1], c = in[2];
    const double w = formula.weight;
    expect_array(call({in[0].to(dtype), in[1].to(dtype), in[2].to(dtype)}),
                 tabulate(all, [&](const Index& i) {
                   const double y = b.at(i);
                   return w * a.at(i) * std::tanh(y) +
                          (1 - w) * std::exp(c.at(i) / 2) / (1 + y * y);
                 }));
    expect_slope(call, in, draw);
  });
}

// Long rows and columns, so that blocks begin and end within them.
TEST(PointwiseProperties, LongOperands) {
  for_random_cases(
      "pointwise",
      [](Draw& draw) {
        const int64_t rows = draw.integer(1, 40), columns = draw.integer(1, 700);
        const Tensor x = draw.numbers({rows, columns}),
                     y = draw.numbers(draw.chance() ? Shape{columns} : Shape{rows, 1});
        const DType dtype = draw.wide();
        const Array a = x, b = y;
        const Tensor z =
            pointwise([](auto x, auto y) { return x * y - max(x, y); }, x.to(dtype), y.to(dtype));
        expect_array(z, tabulate(x.shape(), [&](const Index& i) {
                       return a.at(i) * b.at(i) - std::max(a.at(i), b.at(i));
                     }));
      },
      40);
}

// -- what a GPU is told --------------------------------------------------------------------------

// In the place of a GPU: element by element by the call's own sizes and strides, in vectors of four
// where the call says that they are.
void run_device_call(const void* formula, const formula::DeviceCall& call, void* vectors_seen) {
  const auto run = [&](const formula::DeviceCall& part, int64_t n) {
    for (int64_t first = 0; first < part.count; first += n) {
      std::vector<int64_t> places(size_t(part.inputs));
      int64_t element = first;
      for (int d = part.rank - 1; d >= 0; --d) {
        const int64_t index = d == 0 ? element : element % part.sizes[d];
        element /= part.sizes[d];
        for (int i = 0; i < part.inputs; ++i) places[size_t(i)] += index * part.strides[d][i];
      }
      for (int64_t k = 0; k < n; ++k) {
        formula::Number<float> x[3], y[1];
        for (int i = 0; i < 3; ++i) {
          const bool repeats = part.rank == 0 || part.strides[part.rank - 1][i] == 0;
          x[i] = static_cast<const float*>(part.in[i])[places[size_t(i)] + (repeats ? 0 : k)];
        }
        formula::Forward<Blend, 3>{*static_cast<const Blend*>(formula)}(x, y);
        static_cast<float*>(part.out[0])[first + k] = y[0].value;
      }
    }
  };
  formula::DeviceCall rest = call;
  const formula::DeviceCall vectors = take_vectors(rest, 4);
  *static_cast<int64_t*>(vectors_seen) += vectors.count;
  run(vectors, 4);
  run(rest, 1);
}

TEST(PointwiseProperties, TheCallOfAGpu) {
  formula::Code code = formula::code_of<Blend, formula::Forward<Blend, 3>>();
  code.cuda = run_device_call;
  int64_t vectors_seen = 0;
  for_random_cases("pointwise", [&](Draw& draw) {
    const Shape all = draw.shape(0, 5);
    Inputs in = {draw.numbers(all, DType::f32)};
    for (int i = 1; i < 3; ++i) in.push_back(draw.numbers(draw.stretched_to(all), DType::f32));
    const auto formula = std::make_shared<const Blend>(Blend{0.25f});
    const formula::FormulaKernel kernel("Blend", code, formula, 1);
    const std::vector<TensorView> views(in.begin(), in.end());
    const Tensor here = Tensor::zeros(all), there = Tensor::zeros(all);
    const TensorView here_view = here, there_view = there;
    kernel.run_cpu({.inputs = views, .outputs = {&here_view, 1}});
    kernel.run_cuda({.inputs = views, .outputs = {&there_view, 1}}, &vectors_seen);
    expect_array(there, Array(here));
  });
  EXPECT_GT(vectors_seen, 1000);
}

}  // namespace
}  // namespace adret
