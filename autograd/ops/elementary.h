// Elementary functions, element by element: shapes are kept, or broadcast as NumPy does. Operands
// have one floating dtype and device, else ShapeError or DeviceError. NaN stays NaN, and outside a
// function's domain the result is NaN. 16-bit floats are computed in f32, and rounded once in each
// step of what is composed: lerp, and derivatives. Where nothing else is said, all derivatives
// follow the formula, also where that gives infinity or NaN.
#pragma once

#include <adret/core/tensor.h>

namespace adret {

Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);  // exp(x) - 1, accurate near 0
Tensor log2(const Tensor& x);
Tensor log1p(const Tensor& x);  // log(1 + x), accurate near 0
Tensor rsqrt(const Tensor& x);  // 1 / sqrt(x)
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);  // 1 - erf(x), accurate in its tail

Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
// The angle of the point (x, y) in -pi..pi; its derivative at the origin is NaN.
Tensor atan2(const Tensor& y, const Tensor& x);
// sqrt(a^2 + b^2) without overflow in between; its derivative at the origin is NaN.
Tensor hypot(const Tensor& a, const Tensor& b);

// Their derivatives are 0, that of frac is 1.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // halves to the even integer
Tensor trunc(const Tensor& x);
Tensor frac(const Tensor& x);  // x - trunc(x)

// a - b * trunc(a / b), with the sign of a, and a - b * floor(a / b), with the sign of b:
// the first exactly, the second rounded once, which may reach b. The quotient counts as a constant
// in derivatives. Also of integers: 0 for b = 0. A number for b is one that a's dtype holds, else
// ShapeError.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, double b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, double b);
// floor(a / b) of integers, so that a = b * floor_divide(a, b) + remainder(a, b): 0 for an element
// of b that is 0, and the lowest value by -1 wraps to itself. A number for b is refused if it is 0.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, double b);

// a + weight * (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);

}  // namespace adret
