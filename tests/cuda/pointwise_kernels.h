// Functions that are formulas, compiled by nvcc: pointwise_kernels.cu.
#pragma once

#include <adret/core/tensor.h>

#include <array>
#include <vector>

namespace adret::test {

Tensor swish(const std::vector<Tensor>& in);           // of one operand
Tensor gate(const std::vector<Tensor>& in);            // two
Tensor mixed(const std::vector<Tensor>& in);           // four
Tensor every_function(const std::vector<Tensor>& in);  // one, of (0, 1)
std::array<Tensor, 2> polar(const Tensor& radius, const Tensor& angle);

}  // namespace adret::test
