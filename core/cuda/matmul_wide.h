// Products for the gradients of weights by a kernel of our own on Hopper's tensor cores.
#pragma once

#include <adret/core/cuda/matmul_plan.h>

#include <cstddef>

namespace adret::cuda {

// y = a^T b in 16 bits, with the sums of a's columns where the epilogue is bias_gradient.
bool can_multiply_wide(const Context& context, const Product& product,
                       const ProductOperands& operands);
size_t multiply_wide_workspace(const Context& context, const Product& product);
// The same bits each time on devices with as many multiprocessors.
void multiply_wide(Context& context, const Product& product, const ProductOperands& operands);

}  // namespace adret::cuda
