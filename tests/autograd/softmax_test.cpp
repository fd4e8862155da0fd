// Softmax and log-softmax: values and gradients of PyTorch, large inputs, derivatives.
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/core/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/gradients.h"

namespace adret {
namespace {

using namespace test;
using Inputs = std::vector<Tensor>;
using Softmax = Tensor (*)(const Tensor&, int);

// Values: PyTorch 1.13.
TEST(Softmax, HasPyTorchsValuesAndGradients) {
  const Tensor x = variable({2, 3});
  const Tensor rows = softmax(x), columns = softmax(x, 0);
  expect_values(
      rows, {2, 3},
      {0.0700396077, 0.2225854129, 0.7073749794, 0.0700396077, 0.2225854129, 0.7073749794});
  expect_values(
      gradients(rows, {x})[0], {2, 3},
      {-0.1325968157, -0.1640274251, 0.2966242409, -0.1325968157, -0.1640274251, 0.2966242409});
  expect_values(
      columns, {2, 3},
      {0.4225046348, 0.4225046348, 0.4225046348, 0.5774953652, 0.5774953652, 0.5774953652});
  expect_values(gradients(columns, {x})[0], {2, 3},
                {-0.07624827137, -0.07624827137, -0.07624827137, 0.07624827137, 0.07624827137,
                 0.07624827137});
}

// Values: PyTorch 1.13.
TEST(LogSoftmax, HasPyTorchsValuesAndGradients) {
  const Tensor x = variable({2, 3});
  const Tensor rows = log_softmax(x), columns = log_softmax(x, -2);
  expect_values(
      rows, {2, 3},
      {-2.658694373, -1.502444373, -0.3461943727, -2.658694373, -1.502444373, -0.3461943727});
  expect_values(
      gradients(rows, {x})[0], {2, 3},
      {-1.415429761, -0.1090174841, 1.524447245, -1.168591893, -0.005191308769, 1.173783202});
  expect_values(
      columns, {2, 3},
      {-0.8615548623, -0.8615548623, -0.8615548623, -0.5490548623, -0.5490548623, -0.5490548623});
  expect_values(
      gradients(columns, {x})[0], {2, 3},
      {-0.3620970638, -0.1828890318, -0.00368099979, 0.3620970638, 0.1828890318, 0.00368099979});
}

TEST(Softmax, IsFiniteForLargeInputs) {
  const Tensor x = leaf({1000, -1000, 0});
  expect_values(softmax(x), {3}, {1, 0, 0});
  expect_values(log_softmax(x), {3}, {0, -2000, -1000});
  // dy - softmax(x) sum(dy), with dy = (-47.5, -10.5, 26.5) / 32 of sum -31.5 / 32.
  expect_values(gradients(log_softmax(x), {x})[0], {3}, {-16. / 32, -10.5 / 32, 26.5 / 32});
}

TEST(Softmax, HasDerivativesOfFirstAndSecondOrder) {
  for (const Softmax function : {softmax, log_softmax}) {
    for (int dim : {0, 1, 2}) {
      expect_gradients([=](const Inputs& in) { return function(in[0], dim); },
                       {variable({2, 3, 2})});
    }
    expect_gradients([=](const Inputs& in) { return function(in[0], -1); }, {variable({0, 3})});
  }
}

TEST(Softmax, RefusesDimensionsThatAreNotThere) {
  expect_error<ShapeError>(
      [] {
        return softmax(Tensor::ones({2, 3}), 2);
      },
      "[softmax] dimension 2 is out of range for shape (2, 3)");
  expect_error<ShapeError>([] { return log_softmax(Tensor::ones({})); }, "[log_softmax] dimension");
  expect_error<ShapeError>(
      [] {
        return softmax(Tensor::from({1, 2}, {2}));
      },
      "[softmax] x (2,) is i32, wanted a floating dtype");
}

}  // namespace
}  // namespace adret
