// Every kernel call of every function of autograd/ops, forward and backward, for Note [Parity].
#include <adret/autograd/engine.h>
#include <gtest/gtest.h>

#include "tests/support/functions.h"
#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

TEST(Functions, ComputeAlikeOnBothDevices) {
  if (!mirrored()) GTEST_SKIP() << "compares another device with the CPU";
  for (const FunctionCase& test : function_cases()) {
    SCOPED_TRACE(test.name);
    const FunctionGolden golden = golden_of(test);
    const std::vector<Tensor> inputs = inputs_of(golden, DType::f32);
    const Tensor y = test.call(inputs);
    if (!y.requires_grad()) continue;
    std::vector<Tensor> leaves;
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) leaves.push_back(input);
    }
    grad({y}, leaves, {.grad_outputs = {sequence(y.shape(), 3).to(DType::f32)}});
  }
}

}  // namespace
}  // namespace adret
