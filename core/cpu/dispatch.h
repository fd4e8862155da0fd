// From a run-time dtype to a template instance.
#pragma once

#include <adret/core/dtype.h>
#include <adret/core/error.h>

#include <string>

namespace adret::cpu {

// Calls f with a value of the dtype's C++ type (f32 or f64): dispatch_float(x.dtype, name, [&](auto
// zero) { using T = decltype(zero); ... }). Throws ShapeError naming the kernel for other dtypes.
template <class F>
void dispatch_float(DType dtype, const char* kernel, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default:
      throw ShapeError(std::string("[") + kernel + "] runs in f32 and f64 on the CPU, not in " +
                       adret::name(dtype) + "; convert with to(DType::f32)");
  }
}

}  // namespace adret::cpu
