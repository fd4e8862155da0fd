// What the layers' constructors and forwards share: argument checks and the cast of the input.
#pragma once

#include <adret/core/size3.h>
#include <adret/core/tensor.h>

namespace adret {

// Return the value; throw Error naming the layer, the argument, its value and the limit.
int64_t at_least(int64_t limit, int64_t value, const char* layer, const char* argument);
Size2 at_least(int64_t limit, Size2 value, const char* layer, const char* argument);
Size3 at_least(int64_t limit, Size3 value, const char* layer, const char* argument);

// A probability; throws Error naming the layer and the argument for a number outside 0..1.
double probability(double value, const char* layer, const char* argument);

// A floating input in the dtype of the layer's weight; others as they are.
Tensor in_dtype_of(const Tensor& weight, const Tensor& x);

// The same where the weight, or undefined, is that of a normalisation, whose parameters are f32 for
// 16-bit inputs. An undefined input stays that.
Tensor for_normalization(const Tensor& weight, const Tensor& x);

// Throws Error for a negative epsilon, or NaN.
void check_epsilon(double epsilon, const char* layer);

}  // namespace adret
