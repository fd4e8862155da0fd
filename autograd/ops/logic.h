// Questions about elements and the choice by their answers. Answers are boolean and have no
// gradient.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

// condition ? a : b, element by element; all three broadcast. The condition is boolean, a and b
// have one dtype, any of them, else ShapeError; a number is one that it holds. The gradient goes to
// the chosen one alone: NaN or infinity in the other never spoils it.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);

// Of any dtype; in integers nothing is NaN or infinite.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// Of any dtype, where every element but 0 counts as true, NaN too; a and b broadcast and may differ
// in dtype.
Tensor logical_not(const Tensor& x);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);

}  // namespace adret
