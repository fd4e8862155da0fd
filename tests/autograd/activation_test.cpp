// Activation functions: values, derivatives, and the memory their backward writes to.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Values = std::vector<double>;

struct ActivationCase {
  const char* name;
  Tensor (*function)(const Tensor&);
  Values y, first, second;  // at -3, -0.5, 0, 0.5, 3; PyTorch 1.13 in f64
};

std::vector<ActivationCase> activations() {
  return {
      {"relu", relu, {0, 0, 0, 0.5, 3}, {0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}},
      {"relu6", relu6, {0, 0, 0, 0.5, 3}, {0, 0, 0, 1, 1}, {0, 0, 0, 0, 0}},
      {"sigmoid",
       sigmoid,
       {0.04742587318, 0.3775406688, 0.5, 0.6224593312, 0.9525741268},
       {0.04517665973, 0.2350037122, 0.25, 0.2350037122, 0.04517665973},
       {0.04089157466, 0.05755679485, 0, -0.05755679485, -0.04089157466}},
      {"tanh",
       tanh,
       {-0.9950547537, -0.4621171573, 0, 0.4621171573, 0.9950547537},
       {0.009866037165, 0.786447733, 1, 0.786447733, 0.009866037165},
       {0.01963449436, 0.7268619814, 0, -0.7268619814, -0.01963449436}},
      {"gelu",
       gelu,
       {-0.004049694095, -0.1542687694, 0, 0.3457312306, 2.995950306},
       {-0.0119456472, 0.1325048753, 0.5, 0.8674951247, 1.011945647},
       {-0.03102293888, 0.6161143218, 0.7978845608, 0.6161143218, -0.03102293888}},
  };
}

TEST(Activation, HasPyTorchsValuesAndDerivatives) {
  for (const ActivationCase& test : activations()) {
    SCOPED_TRACE(test.name);
    const Tensor x = leaf({-3, -0.5, 0, 0.5, 3});
    const Tensor y = test.function(x);
    expect_values(y, {5}, test.y);
    expect_values(grad({sum(y)}, {x}, {.retain_graph = true})[0], {5}, test.first);
    const Tensor slope = grad({sum(y)}, {x}, {.create_graph = true})[0];
    expect_values(slope, {5}, test.first);
    expect_values(grad({sum(slope)}, {x})[0], {5}, test.second);
  }
}

TEST(Activation, HasDerivativesOfFirstAndSecondOrder) {
  for (const ActivationCase& test : activations()) {
    for (const Shape& shape : {Shape{2, 3}, Shape{}, Shape{0, 4}}) {
      SCOPED_TRACE(test.name + to_string(shape));
      expect_gradients([&](const Inputs& in) { return test.function(in[0]); }, {variable(shape)});
    }
  }
}

// torch.nn.functional.relu6 and its gradient.
TEST(Activation, OfRelu6EndsAtSix) {
  const Tensor x = leaf({-1, 0, 5.5, 6, 7});
  const Tensor y = relu6(x);
  expect_values(y, {5}, {0, 0, 5.5, 6, 6});
  expect_values(grad({sum(y)}, {x}, {.retain_graph = true})[0], {5}, {0, 0, 1, 0, 0});
  expect_values(grad({sum(y)}, {x}, {.create_graph = true})[0], {5}, {0, 0, 1, 0, 0});
}

TEST(Activation, OfGeluHasAThirdDerivative) {
  const Tensor x = leaf({-0.5, 0.25});
  const Tensor first = grad({sum(gelu(x))}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({sum(first)}, {x}, {.create_graph = true})[0];
  const Tensor third = grad({sum(second)}, {x})[0];
  // By hand: phi(x) (x^3 - 4 x), with phi the standard normal density.
  const auto expected = [](double v) {
    return 0.3989422804014327 * std::exp(-v * v / 2) * (v * v * v - 4 * v);
  };
  expect_values(third, {2}, {expected(-0.5), expected(0.25)});
}

TEST(Activation, DoesNotOverwriteAGradientThatSomebodyElseNeeds) {
  const Tensor x = leaf({-1, 2, 3});
  const Tensor h = x * 2;
  const Tensor weights = Tensor::from({5.0, 6.0, 7.0}, {3});
  // The gradient of relu's output reaches `other` as well, and grad() is asked for it.
  const Tensor other = leaf({0, 0, 0});
  const Tensor activated = relu(h);
  const std::vector<Tensor> d = grad({sum((activated + other) * weights)}, {x, other, activated});
  expect_values(d[0], {3}, {0, 12, 14});
  expect_values(d[1], {3}, {5, 6, 7});
  expect_values(d[2], {3}, {5, 6, 7});
}

TEST(Activation, WantsAFloatingTensor) {
  expect_error<ShapeError>(
      [] {
        return relu(Tensor::from({1, 2}, {2}));
      },
      "[relu] x (2,) is i32, wanted a floating dtype");
}

}  // namespace
}  // namespace adret
