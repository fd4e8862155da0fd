// The functions of autograd/ops as a table of calls, each with inputs and results from PyTorch: one
// entry makes a golden test, a gradient check and a parity test.
#pragma once

#include <adret/core/tensor.h>

#include <string>
#include <vector>

#include "tests/support/gradients.h"

namespace adret::test {

// tests/golden/make_functions*.py compute the case of the same name; what is before a "/" in it is
// the function, which tools/list_functions goes by.
struct FunctionCase {
  const char* name;
  TestFunction call;
};
const std::vector<FunctionCase>& function_cases();

// What PyTorch was given and gave, in f64, i64 or boolean.
struct FunctionGolden {
  std::vector<Tensor> inputs;
  Tensor y;
  std::vector<Tensor> gradients;  // of sum(y * sequence(shape, 3)); undefined where there is none
  bool has_gradient() const;
};
FunctionGolden golden_of(const FunctionCase& test);
// How many cases the file of golden values has.
size_t golden_count();

// Copies of the inputs, floating ones in `dtype` and, where PyTorch had a gradient, asking for one.
std::vector<Tensor> inputs_of(const FunctionGolden& golden, DType dtype);

}  // namespace adret::test
