// Elementwise arithmetic with NumPy's broadcasting. Operands have one dtype and device, else
// ShapeError or DeviceError; a C++ scalar takes the tensor's dtype. NaN stays NaN.
//
// Sums, differences, products, powers, extremes, affine, abs, sign, negative, clamp and square also
// take integers, and wrap around beyond their range as two's complement does: 250 + 10 is 4 in u8,
// abs and negative leave the lowest value as it is. The others take floats, and comparisons
// everything.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
// The larger (smaller) of two elements; equal ones share the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// With a C++ scalar; +, -, * and / below are these. Here and in affine, reciprocal, pow and
// comparisons it throws ShapeError for a scalar that the tensor's dtype does not hold: a finite one
// that would be infinite there, a fraction or one beyond the range in integers, whose scalars are
// exact up to 2^53.
Tensor add(const Tensor& a, double b);
Tensor subtract(const Tensor& a, double b);
Tensor subtract(double a, const Tensor& b);
Tensor multiply(const Tensor& a, double b);
Tensor divide(const Tensor& a, double b);
Tensor divide(double a, const Tensor& b);
// scale * x + shift.
Tensor affine(const Tensor& x, double scale, double shift);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
// The derivative of abs at 0 is 0. Functions that are flat everywhere, as sign, floor, ceil, round,
// trunc and pow(x, 0), hand no gradient on: grad() of what reaches the loss through them alone
// stays undefined, as that of what does not reach it, where PyTorch's is 0.
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);  // -1, 0 or 1; NaN stays NaN
Tensor negative(const Tensor& x);
// min(max(x, low), high); NaN stays NaN, and the derivative at the ends is 1. Throws ShapeError
// unless low <= high, for fractions as bounds of integers, and for a finite bound that would be the
// result and infinite.
Tensor clamp(const Tensor& x, double low, double high);
Tensor square(const Tensor& x);
// x to a constant power, and elementwise (the gradient of the exponent needs x >= 0). A constant
// power of integers is 0 or more, else ShapeError; for a negative element of an exponent the
// fraction is dropped, so that all but powers of 1 and -1 are 0.
Tensor pow(const Tensor& x, double exponent);
Tensor pow(const Tensor& x, const Tensor& exponent);
// scalar / x.
Tensor reciprocal(const Tensor& x, double numerator = 1);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, double b) { return subtract(a, b); }
inline Tensor operator-(double a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return multiply(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return multiply(b, a); }
inline Tensor operator/(const Tensor& a, double b) { return divide(a, b); }
inline Tensor operator/(double a, const Tensor& b) { return divide(a, b); }
inline Tensor operator-(const Tensor& x) { return negative(x); }

// Elementwise comparisons of equal dtypes, any of them; boolean results without a gradient.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);

}  // namespace adret
