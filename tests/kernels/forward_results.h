// What gradients are given of their forward pass.
#pragma once

#include <adret/core/kernels/kernel.h>

namespace adret::test {

void on_cpu(const Kernel& call);  // by no decorator

// Computes on the CPU, in place, the operands of `call` that its forward pass leaves for it: after
// a change of the others, as by rounding, they would be those of another problem.
void renew_forward_results(const Kernel& call);

}  // namespace adret::test
