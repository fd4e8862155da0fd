// Calls with 16-bit operands of kernels that compute in f32 and f64 alone.
#pragma once

#include <adret/core/kernels/kernel.h>

namespace adret::cpu {

// Whether `call` has bf16 or f16 operands that its kernel does not take by itself. Custom kernels
// take what they are given.
bool needs_widening(const Kernel& call);

// Runs such a call on f32 copies of these operands, and rounds those that are outputs back. An
// operand that stands in two fields is one copy, so that updates in place stay that; outputs are
// copied beforehand too, for kernels that add to them or leave a part of them.
void run_widened(const Kernel& call, void (*run)(const Kernel&));

}  // namespace adret::cpu
