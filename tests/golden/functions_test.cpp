// Every function of autograd/ops gives PyTorch's values and gradients, in f64 and f32.
#include <adret/autograd/engine.h>
#include <gtest/gtest.h>

#include "tests/support/functions.h"
#include "tests/support/golden.h"

namespace adret {
namespace {

using namespace test;
using Values = std::vector<double>;

Values values_of(const Tensor& x) { return x.detach().to(DType::f64).to_vector<double>(); }

void expect_golden(const FunctionCase& test, DType dtype) {
  const FunctionGolden golden = golden_of(test);
  const std::vector<Tensor> inputs = inputs_of(golden, dtype);
  const Tensor y = test.call(inputs);
  ASSERT_EQ(y.shape(), golden.y.shape());
  const Values expected = values_of(golden.y);
  expect_close(values_of(y), expected, rounding_tolerance(dtype, expected), "result");
  EXPECT_EQ(y.requires_grad(), golden.has_gradient());
  if (!golden.has_gradient()) return;
  std::vector<Tensor> leaves, wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!golden.gradients[i].defined()) continue;
    leaves.push_back(inputs[i]);
    wanted.push_back(golden.gradients[i]);
  }
  const Tensor dy = sequence(y.shape(), 3).to(dtype);
  const std::vector<Tensor> gradients = grad({y}, leaves, {.grad_outputs = {dy}});
  for (size_t i = 0; i < leaves.size(); ++i) {
    ASSERT_EQ(gradients[i].shape(), wanted[i].shape());
    const Values expected_gradient = values_of(wanted[i]);
    expect_close(values_of(gradients[i]), expected_gradient,
                 rounding_tolerance(dtype, expected_gradient), "gradient " + std::to_string(i));
  }
}

TEST(Functions, HavePyTorchsValuesAndGradients) {
  for (const FunctionCase& test : function_cases()) {
    for (DType dtype : {DType::f64, DType::f32}) {
      SCOPED_TRACE(std::string(test.name) + " in " + name(dtype));
      expect_golden(test, dtype);
    }
  }
}

TEST(Functions, HaveACaseForEachOfPyTorchs) { EXPECT_EQ(function_cases().size(), golden_count()); }

}  // namespace
}  // namespace adret
