// Compares gradients with central differences in f64.
#pragma once

#include <adret/core/tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace adret {

struct GradcheckOptions {
  double epsilon = 1e-6;
  double absolute = 1e-6, relative = 1e-4;
  bool second = false;   // also checks the gradient of the gradient
  int64_t elements = 0;  // so many of each input at most, spread over it; 0: all
};

// Empty when every d(sum of outputs times fixed weights)/d(element) agrees, else a text that says
// which input, which element and which two values. Inputs are left as they were; those that require
// no gradient are constants. Throws ShapeError for a gradient in another dtype than f64, and Error
// for an empty function.
std::string gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& function,
                      const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

}  // namespace adret
