// Inputs and expectations for tests of differentiable functions.
#pragma once

#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace adret::test {

// f64 elements ((37 i + offset) mod 101 - 50.5) / 32 for element i: exact, between -1.6 and 1.6,
// never 0, and different from each other up to 101 elements.
Tensor sequence(const Shape& shape, int offset = 0);
// The same as a leaf that requires a gradient.
Tensor variable(const Shape& shape, int offset = 0);
// Its elements made positive, 0.2 at least.
Tensor positive_variable(const Shape& shape, int offset = 0);
// A leaf of these f64 values that requires a gradient.
Tensor leaf(const std::vector<double>& values);
Tensor leaf(const std::vector<double>& values, const Shape& shape);

// Any floating dtype; absolute tolerance.
void expect_values(const Tensor& tensor, const Shape& shape, const std::vector<double>& values,
                   double tolerance = 1e-8);

using TestFunction = std::function<Tensor(const std::vector<Tensor>&)>;

// First and second derivatives against central differences.
void expect_gradients(const TestFunction& function, const std::vector<Tensor>& inputs);

// d(sum of outputs times sequence(shape, 3))/d(inputs).
std::vector<Tensor> gradients(const Tensor& output, const std::vector<Tensor>& inputs);

}  // namespace adret::test
