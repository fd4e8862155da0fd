// Inputs and expectations for tests of differentiable functions.
#include "tests/support/gradients.h"

#include <adret/autograd/engine.h>
#include <adret/autograd/gradcheck.h>

#include <cmath>

namespace adret::test {
namespace {

std::vector<double> sequence_values(int64_t count, int offset) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back((double((37 * i + offset) % 101) - 50.5) / 32);
  }
  return values;
}

}  // namespace

Tensor sequence(const Shape& shape, int offset) {
  return Tensor::from(sequence_values(shape.numel(), offset), shape);
}

Tensor variable(const Shape& shape, int offset) {
  return leaf(sequence_values(shape.numel(), offset), shape);
}

Tensor positive_variable(const Shape& shape, int offset) {
  std::vector<double> values = sequence_values(shape.numel(), offset);
  for (double& value : values) value = std::abs(value) + 0.2;
  return leaf(values, shape);
}

Tensor leaf(const std::vector<double>& values) { return leaf(values, {int64_t(values.size())}); }

Tensor leaf(const std::vector<double>& values, const Shape& shape) {
  Tensor tensor = Tensor::from(values, shape);
  tensor.set_requires_grad(true);
  return tensor;
}

void expect_values(const Tensor& tensor, const Shape& shape, const std::vector<double>& values,
                   double tolerance) {
  ASSERT_TRUE(tensor.defined());
  ASSERT_EQ(tensor.shape(), shape);
  ASSERT_EQ(int64_t(values.size()), shape.numel()) << "wrong number of expected values";
  const std::vector<double> actual = tensor.to(DType::f64).to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == actual[i] || (std::isnan(values[i]) && std::isnan(actual[i]))) continue;
    EXPECT_NEAR(actual[i], values[i], tolerance) << "element " << i << " of " << tensor;
  }
}

void expect_gradients(const TestFunction& function, const std::vector<Tensor>& inputs) {
  EXPECT_EQ(gradcheck(function, inputs, {.second = true}), "");
}

std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs) {
  return grad({output}, inputs, {.grad_outputs = {sequence(output.shape(), 3)}});
}

}  // namespace adret::test
